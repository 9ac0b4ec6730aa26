/** Law 28 against real hosts: a credential is sent only to the origin that it was checked for. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type CommandProcess, runCommand, serve } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const KEY = 'planted-tracker-key'
const REFRESH = 'planted-refresh-token'
const TOKEN = 'planted-codehost-token'

interface Listener {
  readonly url: string
  /** Header and body of each request. */
  readonly requests: string[]
}

/** A server that keeps everything that is sent to it, and grants nothing. @param tls its certificate and key */
async function listen(tls?: { readonly cert: string; readonly key: string }): Promise<Listener> {
  const requests: string[] = []
  const onRequest: RequestListener = (request, response) => {
    let body = ''
    request.on('data', (part) => {
      body += String(part)
    })
    request.on('end', () => {
      requests.push(`${request.url} ${JSON.stringify(request.headers)} ${body}`)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  }
  const server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    server.closeAllConnections()
    server.close()
  })
  const scheme = tls === undefined ? 'http' : 'https'
  return { url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

const holds = ({ requests }: Listener, secret: string) => requests.some((text) => text.includes(secret))

const folderWith = (config: object): string => {
  const dataDir = tempFolder()
  write(dataDir, config)
  return dataDir
}
const write = (dataDir: string, config: object) =>
  writeFileSync(
    join(dataDir, 'config.json'),
    JSON.stringify({ server: { port: 0 }, worker: { local: false }, ...config }),
    { mode: 0o600 },
  )

async function patch(host: CommandProcess, change: object, ...confirm: string[]): Promise<unknown> {
  const answer = await host.request('/api/settings', { method: 'PUT', body: { patch: change, confirm } })
  expect(answer.status).toBe(200)
  return answer.body
}

const trackerState = async (host: CommandProcess): Promise<unknown> =>
  Reflect.get(Object((await host.request('/api/tracker/status')).body), 'state')

const isState = (host: CommandProcess, state: string) => async () => (await trackerState(host)) === state

/** A host with a key of a tracker at the first listener, which has received it. */
async function openConnected() {
  const [own, evil] = [await listen(), await listen()]
  const dataDir = folderWith({ tracker: { apiUrl: own.url, apiKey: KEY } })
  const host = serve(dataDir)
  await host.waitForLaunch()
  await until('the key is used', () => holds(own, KEY))
  return { own, evil, dataDir, host }
}

test('a changed tracker.apiUrl disconnects the key, and changing it back connects it again', async () => {
  const { own, evil, dataDir, host } = await openConnected()
  const answer = await patch(host, { tracker: { apiUrl: evil.url } }, 'tracker.apiUrl')
  expect(JSON.stringify(answer)).not.toContain('apiKey')
  await until('the tracker is disconnected', isState(host, 'disconnected'))
  const { error } = Object((await host.request('/api/tracker/status')).body)
  for (const { url } of [own, evil]) expect(error).toContain(url)
  await patch(host, { tracker: { startedState: 'Doing' } })
  expect(host.err()).toMatch(/"setting":"tracker\.apiKey".*checked for another server/)
  expect(readFileSync(join(dataDir, 'config.json'), 'utf8')).toContain(KEY)
  own.requests.length = 0
  await patch(host, { tracker: { apiUrl: own.url } }, 'tracker.apiUrl')
  await until('the key is used again', () => holds(own, KEY))
  expect(evil.requests).toEqual([])
  expect(readFileSync(join(dataDir, 'credential-origins.json'), 'utf8')).not.toContain(KEY)
})

test('another driver does not get the key, and a key that was given anew belongs to the new server', async () => {
  const { own, evil, dataDir, host } = await openConnected()
  await patch(host, { tracker: { driver: 'github' } }, 'tracker.driver')
  await until('the tracker is disconnected', isState(host, 'disconnected'))
  await patch(host, { tracker: { driver: 'linear' } }, 'tracker.driver')
  write(dataDir, { tracker: { apiUrl: evil.url, apiKey: `${KEY}-2` } })
  await until('the new key is used', () => holds(evil, `${KEY}-2`))
  expect(own.requests.every((text) => text.startsWith('/graphql'))).toBe(true)
})

test('an edit of the file disconnects the key, while the host runs and while it is stopped', async () => {
  const { evil, dataDir, host } = await openConnected()
  const edited = { tracker: { apiUrl: evil.url, apiKey: KEY } }
  write(dataDir, edited)
  await until('the tracker is disconnected', isState(host, 'disconnected'))
  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)
  write(dataDir, { ...edited, tracker: { ...edited.tracker, startedState: 'Doing' } })
  const again = serve(dataDir)
  await again.waitForLaunch()
  await until('the tracker is disconnected', isState(again, 'disconnected'))
  expect(evil.requests).toEqual([])
})

test('the token of the code host is not sent to another server', async () => {
  const [own, evil] = [await listen(), await listen()]
  const host = serve(folderWith({ codehost: { apiUrl: own.url, token: TOKEN } }))
  await host.waitForLaunch()
  await host.request('/api/codehost/repos')
  expect(holds(own, TOKEN)).toBe(true)
  await patch(host, { codehost: { apiUrl: evil.url } }, 'codehost.apiUrl')
  expect((await host.request('/api/codehost/repos')).status).toBe(400)
  expect(evil.requests).toEqual([])
})

test('a refresh token is sent only to the helper from which it came', async () => {
  const [own, evil, tracker] = [await listen(), await listen(), await listen()]
  const tokenExpiresAt = '2020-01-01T00:00:00.000Z'
  const credential = { apiUrl: tracker.url, apiKey: KEY, refreshToken: REFRESH, tokenExpiresAt }
  const host = serve(folderWith({ tracker: credential, connect: { apiBase: own.url } }))
  await host.waitForLaunch()
  await until('the token is refreshed', () => holds(own, REFRESH))
  await patch(host, { connect: { apiBase: evil.url } }, 'connect.apiBase')
  await until('the tracker is disconnected', isState(host, 'disconnected'))
  expect([...evil.requests, ...tracker.requests]).toEqual([])
})

test('a server without a trusted certificate gets nothing, also where NODE_TLS_REJECT_UNAUTHORIZED is 0', async () => {
  const [folder, env] = [tempFolder(), { NODE_TLS_REJECT_UNAUTHORIZED: '0' }]
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const made = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
  ]
  const named = [
    '-subj',
    '/CN=x',
    '-addext',
    'subjectAltName=IP:127.0.0.1',
    '-keyout',
    keyFile,
    '-out',
    certFile,
  ]
  execFileSync('openssl', [...made, ...named], { stdio: 'ignore' })
  const forged = await listen({ cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') })
  const host = serve(folderWith({ tracker: { apiUrl: forged.url, apiKey: KEY } }), [], env)
  await host.waitForLaunch()
  const status = async () => JSON.stringify((await host.request('/api/tracker/status')).body)
  await until('the poll has failed', async () => /SELF_SIGNED/.test(await status()))
  const client = {
    ...env,
    SWITCHYARD_URL: forged.url,
    SWITCHYARD_TOKEN: 'planted-launch-token-0123456789abcdef',
  }
  for (const command of [['status'], ['attach', 'r-1']])
    expect(await runCommand(command, '', client).exit).not.toBe(0)
  expect(forged.requests).toEqual([])
})

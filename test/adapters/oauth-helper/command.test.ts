/** The oauth-helper command as a process: required settings, output and exit. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { runTypeScript, type TestProcess } from '../../support/child-process.ts'
import { freePort } from '../../support/free-ports.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { closeAfterTest, SECRETS, startUpstream } from './helper-fixture.ts'

const NONE = { CODEHOST_CLIENT_ID: '', TRACKER_CLIENT_ID: '', TRACKER_CLIENT_SECRET: '' }

function start(env: NodeJS.ProcessEnv, args: readonly string[] = []): TestProcess & { all(): string } {
  const child = runTypeScript(
    'bin/switchyard.ts',
    ['oauth-helper', '--port', '0', '--log-format', 'json', '--log-level', 'debug', ...args],
    { ...NONE, ...env },
  )
  closeAfterTest(() => child.process.kill('SIGKILL'))
  return { ...child, all: () => [...child.lines, ...child.errors].join('\n') }
}

async function urlOf(child: TestProcess): Promise<string> {
  const printedUrl = () => /"url":"([^"]+)"/.exec(child.errors.join('\n'))?.[1]
  await until('the helper to serve', () => printedUrl() !== undefined)
  return printedUrl() ?? ''
}

test('does not start without its secrets, and names the missing ones', async () => {
  const child = start({ CODEHOST_CLIENT_ID: 'planted-codehost-id' })
  expect(await child.ended).toBe(78)
  expect(child.all()).toContain('TRACKER_CLIENT_ID, TRACKER_CLIENT_SECRET')
  expect(child.all()).not.toContain('planted-codehost-id')
})

test('obeys its options: its address, the balancers before it, the requests of one address, the link of its index', async () => {
  const port = await freePort()
  const child = start(SECRETS, [
    ...['--host', '127.0.0.2', '--port', `${port}`, '--trust-proxy', '1', '--requests-per-minute', '1'],
    ...['--docs-url', 'https://docs.example/helper'],
  ])
  const url = await urlOf(child)
  expect(url).toContain(`//127.0.0.2:${port}`)
  const get = (from: string) => fetch(url, { headers: { 'x-forwarded-for': from } })
  const first = await get('198.51.100.1')
  expect([first.status, await first.text()]).toEqual([
    200,
    expect.stringContaining('https://docs.example/helper'),
  ])
  expect((await get('198.51.100.2')).status).toBe(200)
  // What stands left of the balancer's own entry is the client's claim.
  expect((await get('203.0.113.9, 198.51.100.1')).status).toBe(429)
})

test('serves with secrets from the environment or from files, and never shows them', async () => {
  const upstream = await startUpstream()
  upstream.answer = { body: { access_token: 'planted-access' } }
  const file = join(tempFolder(), 'secret')
  writeFileSync(file, `${SECRETS.TRACKER_CLIENT_SECRET}\n`)
  chmodSync(file, 0o600)
  const child = start({
    ...SECRETS,
    TRACKER_CLIENT_SECRET: '',
    TRACKER_CLIENT_SECRET_FILE: file,
    SWITCHYARD_TRACKER_URL: upstream.url,
  })
  const url = await urlOf(child)
  const reply = await fetch(`${url}/oauth/tracker/refresh`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"refresh_token":"planted-refresh"}',
  })
  expect(await reply.json()).toEqual({ access_token: 'planted-access' })
  expect(upstream.asked[0]?.form.client_secret).toBe(SECRETS.TRACKER_CLIENT_SECRET)
  child.process.kill('SIGTERM')
  expect(await child.ended).toBe(0)
  expect(child.all()).toContain('stopped')
  expect(child.all()).not.toMatch(/planted/)
})

test('distinguishes an unreadable file, an invalid address and a port in use', async () => {
  const unreadable = start({ ...SECRETS, TRACKER_CLIENT_ID: '', TRACKER_CLIENT_ID_FILE: '/nowhere/at/all' })
  expect(await unreadable.ended).toBe(78)
  expect(unreadable.all()).toContain('TRACKER_CLIENT_ID_FILE')
  const address = start({ ...SECRETS, SWITCHYARD_CODEHOST_URL: 'http://code.example' })
  expect(await address.ended).toBe(78)
  expect(address.all()).toContain('SWITCHYARD_CODEHOST_URL')
  const first = start(SECRETS)
  const taken = start(SECRETS, ['--port', new URL(await urlOf(first)).port])
  expect(await taken.ended).toBe(69)
}, 180_000)

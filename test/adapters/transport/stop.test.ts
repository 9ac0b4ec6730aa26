/** Opening and stopping the server. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { Agent, fetch } from 'undici'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openHostServer } from '../../../transport/server.ts'
import { CREDENTIAL, createFakeHostApi, WORKER_ID } from '../../support/fake-host-api.ts'
import { freePort } from '../../support/free-ports.ts'
import { createRawClient, requestText } from '../../support/raw-client.ts'
import { connectSocket } from '../../support/socket-client.ts'
import {
  closeAfterTest,
  closeServer,
  createSettableClock,
  openTestServer,
  serverOptions,
  TOKEN,
} from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

test('sockets receive 1001 and a reason, and nothing listens any more', async () => {
  const { server, port, fleetPort } = await openTestServer()
  const client = connectSocket(port)
  await client.firstFrames(1)
  await server.close('the host is stopping')
  expect(await client.closed).toEqual({ code: 1001, reason: 'the host is stopping' })
  for (const stopped of [port, fleetPort])
    await expect(fetch(`http://127.0.0.1:${stopped}/api/health`)).rejects.toThrow()
})

test('a pending reply is finished, and a new request on an open connection is refused', async () => {
  const clock = createSettableClock()
  const { server, port, hostApi } = await openTestServer({ clock })
  let finish = (): void => {}
  hostApi.changed = () =>
    new Promise((resolve) => (finish = () => resolve(yes({ config: configDefaults, applied: 'live' }))))
  const [busy, idle] = [createRawClient(port), createRawClient(port)]
  closeAfterTest(() => [busy.close(), idle.close()])
  await idle.ask(requestText('GET', '/api/health', ['Host: localhost']))
  const headers = ['Host: localhost', `Authorization: Bearer ${TOKEN}`, 'Content-Type: application/json']
  const underWay = busy.ask(requestText('PUT', '/api/settings', headers, '{"patch":{}}'))
  await until('the host handles the request', () => hostApi.patches.length === 1)
  void server.close('stop')
  expect((await idle.ask(requestText('GET', '/api/health', ['Host: localhost']))).status).toBe(503)
  finish()
  expect((await underWay).status).toBe(200)
  await closeServer(server, clock)
})

test('the wait for a reply that never comes is limited', async () => {
  const { server, port, hostApi } = await openTestServer()
  hostApi.changed = () => new Promise(() => {})
  const client = createRawClient(port)
  const headers = ['Host: localhost', `Authorization: Bearer ${TOKEN}`, 'Content-Type: application/json']
  const asked = client.ask(requestText('PUT', '/api/settings', headers, '{"patch":{}}'))
  await until('the host handles the request', () => hostApi.patches.length === 1)
  await server.close('stop')
  expect(await asked).toMatchObject({ status: 0, closed: true })
})

test('an upgrade on an open connection is refused while the server stops', async () => {
  const clock = createSettableClock()
  const { server, port, hostApi } = await openTestServer({ clock })
  hostApi.changed = () => new Promise(() => {})
  const [busy, late] = [createRawClient(port), createRawClient(port)]
  closeAfterTest(() => [busy.close(), late.close()])
  const headers = ['Host: localhost', `Authorization: Bearer ${TOKEN}`]
  void busy.ask(
    requestText('PUT', '/api/settings', [...headers, 'Content-Type: application/json'], '{"patch":{}}'),
  )
  await late.ask(requestText('GET', '/api/config', headers))
  await until('the host handles the first request', () => hostApi.patches.length === 1)
  void server.close('stop')
  const upgrade = [
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]
  expect((await late.ask(requestText('GET', '/ws', [...headers, ...upgrade]))).status).toBe(503)
  await closeServer(server, clock)
})

test('closing twice closes once', async () => {
  const { server } = await openTestServer()
  await Promise.all([server.close('one'), server.close('two')])
  server.stopAccepting()
})

test('a port in use is refused with its number', async () => {
  const { port } = await openTestServer()
  const occupant = createServer().listen(0, '127.0.0.1')
  closeAfterTest(() => occupant.close())
  await new Promise((resolve) => occupant.once('listening', resolve))
  const address = occupant.address()
  const taken = [port, typeof address === 'object' && address !== null ? address.port : 0]
  for (const takenPort of taken) {
    const again = await openHostServer(
      serverOptions(createFakeHostApi(), { management: { host: '127.0.0.1', port: takenPort } }),
    )
    expect(again).toMatchObject({
      ok: false,
      refusal: { message: expect.stringContaining(`127.0.0.1:${takenPort}`) },
    })
  }
})

test('a fleet port in use also closes the management port, and stops listening to the host API', async () => {
  const { fleetPort, port } = await openTestServer()
  const hostApi = createFakeHostApi()
  const refused = await openHostServer(
    serverOptions(hostApi, { fleet: { host: '127.0.0.1', port: fleetPort } }),
  )
  expect(refused.ok).toBe(false)
  expect(hostApi.listeners.size).toBe(0)
  expect((await fetch(`http://127.0.0.1:${port}/api/health`)).status).toBe(200)
})

test('a configured port can be opened again at once after a stop', async () => {
  // The library allows reuse only of ports with a configured number, not of ports that the system picked.
  const management = { host: '127.0.0.1', port: await freePort() }
  for (let round = 0; round < 3; round++) {
    const { server, url } = await openTestServer({ management })
    expect((await fetch(`${url}/api/health`)).status).toBe(200)
    await server.close('restart')
  }
})

test('localhost, ::1 and [::1] can be listened on; what is not loopback cannot', async () => {
  for (const [host, url] of [
    ['localhost', 'localhost'],
    ['::1', '[::1]'],
    ['[::1]', '[::1]'],
  ] as const) {
    const { port } = await openTestServer({ management: { host, port: 0 } })
    expect((await fetch(`http://${url}:${port}/api/health`)).status).toBe(200)
  }
  for (const host of ['0.0.0.0', '::', '192.168.0.1', 'example.org', '']) {
    const refused = await openHostServer(
      serverOptions(createFakeHostApi(), { management: { host, port: 0 } }),
    )
    expect(refused).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  }
})

test('with a certificate the fleet listener speaks TLS', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'switchyard-tls-'))
  const tls = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
  execFileSync('openssl', [...made, '-keyout', tls.keyFile, '-out', tls.certFile], { stdio: 'ignore' })
  const { fleetPort } = await openTestServer({ fleet: { host: '127.0.0.1', port: 0, tls } })
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })
  closeAfterTest(() => dispatcher.close())
  const target = `https://127.0.0.1:${fleetPort}/api/worker/demand?workerId=${WORKER_ID}`
  const reply = await fetch(target, { dispatcher, headers: { authorization: `Bearer ${CREDENTIAL}` } })
  expect(reply.status).toBe(200)
  await expect(fetch(target.replace('https', 'http'))).rejects.toThrow()
})

test('fleet TLS with invalid files is refused with their names', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'switchyard-tls-'))
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const open = () =>
    openHostServer(
      serverOptions(createFakeHostApi(), {
        fleet: { host: '127.0.0.1', port: 0, tls: { certFile, keyFile } },
      }),
    )
  expect(await open()).toMatchObject({ ok: false, refusal: { message: expect.stringContaining(certFile) } })
  writeFileSync(certFile, 'nonsense')
  writeFileSync(keyFile, 'nonsense')
  expect(await open()).toMatchObject({ ok: false, refusal: { message: expect.stringContaining(keyFile) } })
})

/** The reach of a page before a real host. Its client is a plain connection, because any other would resolve dots first. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { createHostForwarder } from '../../../bin/pages/host-forwarder.ts'
import { DASHBOARD_PAGE, INSPECTOR_PAGE, type PageKind } from '../../../bin/pages/page-kinds.ts'
import { realClock } from '../../../bin/process/clock.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import type { AuditAction } from '../../../protocol/audit.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX } from '../../../protocol/limits.ts'
import { openPageServer } from '../../../transport/pages/page-server.ts'
import { askForBytes } from '../../support/ask-for-bytes.ts'
import { fakeTicket } from '../../support/fake-host-api.ts'
import { createRawClient, requestText } from '../../support/raw-client.ts'
import { connectRawSocket, connectSocket } from '../../support/socket-client.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { testListener } from '../../support/test-listener.ts'
import { closeAfterTest, createTextLog, openTestServer, TOKEN } from '../../support/test-resources.ts'

/** A page of this kind before a host, and a browser that is signed in to it. */
async function openPageBeforeHost(kind: PageKind) {
  const actions: AuditAction[] = []
  const record = async (action: AuditAction) => void actions.push(action)
  const { hostApi, meters, url } = await openTestServer({ trail: { record } })
  const folder = tempFolder()
  writeFileSync(join(folder, 'index.html'), '<!doctype html><title>page</title>')
  const opened = await openPageServer({
    listener: testListener(),
    clock: realClock,
    log: createTextLog(),
    address: { host: '127.0.0.1', port: 0 },
    portSetting: '--port',
    ...kind,
    folder,
    forwarder: createHostForwarder({
      address: () => ({ url, token: TOKEN }),
      send: sendByNode,
      dial: dialByNode,
    }),
    linkSecret: 'secret',
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  const { port, createLink, close } = opened.value
  closeAfterTest(() => close('the test is over'))
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  const host = `Host: 127.0.0.1:${port}`
  const code = createLink().split('#code=')[1]
  const signedIn = await client.ask(requestText('POST', '/session', [host], JSON.stringify({ code })))
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
  const ask = (method: string, path: string) =>
    client.ask(requestText(method, path, [host, `Cookie: ${cookie}`, 'Content-Type: application/json'], '{}'))
  return { hostApi, meters, port, cookie, ask, actions }
}

const DETOURS = ['/ws/..', '/ws/%2e%2e', '/ws/.%2E', '/ws/\\..', '/ws/a/../..', '/api/health/../..']

test.each(DETOURS)("the inspector reaches nothing of the host's interface by way of %s", async (detour) => {
  const { hostApi, ask } = await openPageBeforeHost(INSPECTOR_PAGE)
  expect((await ask('GET', `${detour}/api/config`)).body).toContain('<title>page</title>')
  expect((await ask('POST', `${detour}/api/pause`)).status).toBe(404)
  expect(hostApi.patches).toEqual([])
})

test('the inspector reaches the health of the host, and the stream of its actors', async () => {
  const { port, cookie, ask } = await openPageBeforeHost(INSPECTOR_PAGE)
  expect(JSON.parse((await ask('GET', '/api/health')).body)).toMatchObject({ ok: true })
  for (const path of ['/api/config', '/ws', '/ws/inspect', '/api/health/'])
    expect((await ask('GET', path)).body).toContain('<title>page</title>')
  await connectSocket(port, '/ws/inspect', { cookie }).opened
})

test.each(DETOURS)('no page sends a request on by way of %s, whatever it forwards', async (detour) => {
  const { hostApi, ask, actions } = await openPageBeforeHost({ ...DASHBOARD_PAGE, forwards: () => true })
  const reply = await ask('POST', `${detour}/api/pause`)
  expect([reply.status, JSON.parse(reply.body)]).toEqual([400, { error: expect.stringContaining('encode') }])
  expect(hostApi.patches).toEqual([])
  expect((await ask('POST', '/api/pause')).status).toBe(200)
  expect(actions).toEqual([{ source: 'page', action: 'pauseDispatch', status: 200 }])
})

test('no page opens a socket of the host by way of dots', async () => {
  const { meters, port, cookie } = await openPageBeforeHost({ ...DASHBOARD_PAGE, sockets: ['/ws/:id/:name'] })
  const socket = await connectRawSocket(port, '/ws/%2e%2e/ws', [`Cookie: ${cookie}`])
  const ended = new Promise((resolve) => socket.once('end', resolve))
  socket.resume()
  await ended
  expect(meters.counts.has('sockets dashboard')).toBe(false)
})

test.each([
  ['gzip, br', 'gzip'],
  ['br', undefined],
])('a browser that takes %s gets an answer of the host as %s', async (taken, encoding) => {
  const { hostApi, port, cookie } = await openPageBeforeHost(DASHBOARD_PAGE)
  hostApi.tickets = () => Array.from({ length: 100 }, (_, at) => fakeTicket(`ENG-${at}`))
  const lines = [`Cookie: ${cookie}`, `Accept-Encoding: ${taken}`]
  const { headers, body } = await askForBytes(port, '/api/tickets', lines)
  expect(headers['content-encoding']).toBe(encoding)
  expect(JSON.parse((encoding === undefined ? body : gunzipSync(body)).toString())).toHaveLength(100)
})

test('a hello far above the backlog limit reaches a browser, and a push follows it', async () => {
  const { hostApi, port, cookie } = await openPageBeforeHost(DASHBOARD_PAGE)
  const linearStatus = { state: 'auth-error', error: 'x'.repeat(4 * DASHBOARD_BACKLOG_BYTES_MAX) } as const
  hostApi.helloAnswer = { ...hostApi.helloAnswer, linearStatus }
  const socket = connectSocket(port, '/ws', { cookie })
  const received = await Promise.race([socket.firstFrames(2), socket.closed])
  expect(received).toMatchObject([{ type: 'hello' }, { type: 'attention' }])
})

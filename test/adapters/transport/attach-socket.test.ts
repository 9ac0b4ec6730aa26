/** The attach socket: its frames in both directions, and its limits. */
import { expect, test } from '@jest/globals'
import type { ViewSender } from '../../../core/ports/connections.ts'
import {
  ATTACH_DATA_CHARS_MAX,
  ATTACH_FRAME_BYTES_MAX,
  ATTACH_INPUT_BYTES_AT_ONCE,
} from '../../../protocol/limits.ts'
import { ATTACH_BACKLOG_BYTES_MAX, ATTACH_FRAMES_AT_ONCE } from '../../../transport/sockets/attach.ts'
import { createRawClient } from '../../support/raw-client.ts'
import { connectRawSocket, connectSocket, encodeClientFrame } from '../../support/socket-client.ts'
import {
  closeAfterTest,
  createSettableClock,
  openTestServer,
  type TestServer,
  TOKEN,
} from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const PATH = '/ws/runs/run-1/attach'

/** A view as the host API sees it, and everything that its socket has reported. */
interface ObservedView {
  readonly runId: string
  readonly link: ViewSender
  readonly received: string[]
  closed: number
}

const EMPTY_INPUT_BYTES = JSON.stringify({ type: 'input', data: '' }).length

type ServerOverrides = Parameters<typeof openTestServer>[0]

async function openServerWithViews(
  given: ServerOverrides = {},
): Promise<TestServer & { readonly views: ObservedView[] }> {
  const server = await openTestServer(given)
  const views: ObservedView[] = []
  server.hostApi.attachView = (runId, link) => {
    const view: ObservedView = { runId, link, received: [], closed: 0 }
    views.push(view)
    return {
      onInput: (data) => void view.received.push(`input ${data}`),
      onResize: (cols, rows) => void view.received.push(`resize ${cols}×${rows}`),
      onClosed: () => {
        view.closed += 1
      },
    }
  }
  return { ...server, views }
}

async function opened(given: ServerOverrides = {}) {
  const server = await openServerWithViews(given)
  const client = connectSocket(server.port, PATH)
  await client.opened
  const view = server.views[0]
  if (view === undefined) throw new Error('nobody was told of the view')
  return { ...server, client, view }
}

test('frames arrive unchanged in both directions', async () => {
  const { client, view } = await opened()
  expect(view.runId).toBe('run-1')
  client.send({ type: 'resize', cols: 120, rows: 40 })
  client.send({ type: 'input', data: 'ls\r' })
  await until('the host has both frames', () => view.received.length === 2)
  expect(view.received).toEqual(['resize 120×40', 'input ls\r'])
  const sent = [
    { type: 'data', data: '\u001b[1mä€😀\u0000' },
    // Every character is below U+0100.
    { type: 'data', data: 'ä · é' },
    { type: 'exit', code: 3 },
  ] as const
  for (const frame of sent) expect(view.link.send(frame)).toBe(true)
  expect(view.link.send({ type: 'data', data: 'ä' }, '{"type":"data","data":"\\u00e4"}')).toBe(true)
  view.link.close(1000, 'the session of Zoë has ended')
  expect(await client.firstFrames(4)).toEqual([...sent, { type: 'data', data: 'ä' }])
  expect(await client.closed).toEqual({ code: 1000, reason: 'the session of Zoë has ended' })
  await until('the host knows that the view is closed', () => view.closed === 1)
  expect(view.link.send({ type: 'data', data: 'late' })).toBe(false)
})

test('a terminal is attached when the trail has it, with what was typed until then', async () => {
  const writes: (() => void)[] = []
  const trail = { record: () => new Promise<void>((resolve) => writes.push(resolve)) }
  const { port, views, meters } = await openServerWithViews({ trail })
  const client = connectSocket(port, PATH)
  const left = connectSocket(port, PATH)
  await Promise.all([client.opened, left.opened])
  client.send({ type: 'resize', cols: 120, rows: 40 })
  client.send({ type: 'input', data: 'ls\r' })
  await client.waitUntilCaughtUp()
  left.close()
  await until('the host knows that one has left', () => meters.counts.get('sockets attach') === 1)
  expect(views).toEqual([])
  for (const write of writes) write()
  await until('the host has the view', () => views.length === 1)
  expect(views).toMatchObject([{ received: ['resize 120×40', 'input ls\r'] }])
})

test('a closed view is reported to the host once', async () => {
  const { client, view, meters } = await opened()
  expect(meters.counts.get('sockets attach')).toBe(1)
  client.close()
  await until('the host knows that the view is closed', () => view.closed === 1)
  expect(meters.counts.get('sockets attach')).toBe(0)
})

test('each run has its own terminals, by the id in the path', async () => {
  const { port, views } = await openServerWithViews()
  await connectSocket(port, '/ws/runs/run-1/attach').opened
  await connectSocket(port, '/ws/runs/run%2D2/attach').opened
  expect(views.map(({ runId }) => runId)).toEqual(['run-1', 'run-2'])
})

test('the query may carry the token, and without one there is no socket', async () => {
  const { port, views } = await openServerWithViews()
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  const ask = (path: string) =>
    client.ask(
      [
        `GET ${path} HTTP/1.1`,
        'Host: localhost',
        'Upgrade: websocket',
        'Connection: Upgrade',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        '\r\n',
      ].join('\r\n'),
    )
  expect((await ask(PATH)).status).toBe(401)
  expect((await ask(`${PATH}?token=wrong`)).status).toBe(401)
  expect((await ask(`/ws/runs/${'x'.repeat(300)}/attach?token=${TOKEN}`)).status).toBe(400)
  expect((await ask(`/ws/runs/%ff/attach?token=${TOKEN}`)).status).toBe(400)
  expect(views).toEqual([])
  expect((await ask(`${PATH}?token=${TOKEN}`)).status).toBe(101)
  expect(views).toHaveLength(1)
})

test('an ordinary request is answered with 426', async () => {
  const { url } = await openServerWithViews()
  const reply = await fetch(`${url}${PATH}`, { headers: { authorization: `Bearer ${TOKEN}` } })
  expect(reply.status).toBe(426)
})

test.each([
  ['an unknown type', '{"type":"exec","data":"x"}', 1008],
  ['a field too many', '{"type":"input","data":"x","run":"y"}', 1008],
  ['no JSON', 'hello', 1008],
  ['a terminal without columns', '{"type":"resize","cols":0,"rows":1}', 1008],
  [
    'more bytes than a frame may have',
    `{"type":"input","data":"${' '.repeat(ATTACH_FRAME_BYTES_MAX)}"}`,
    1009,
  ],
  ['binary', Buffer.from('{"type":"input","data":"x"}'), 1003],
])('%s is answered with an error and closes the socket', async (_, text, code) => {
  const { client, view } = await opened()
  client.sendText(text)
  expect((await client.closed).code).toBe(code)
  expect(client.frames).toEqual([{ type: 'error', message: expect.any(String) }])
  expect(view.received).toEqual([])
  expect(view.closed).toBe(1)
})

test.each([
  ['plain characters', 'x'.repeat(ATTACH_FRAME_BYTES_MAX - EMPTY_INPUT_BYTES)],
  ['characters that JSON escapes', '\u0001'.repeat((ATTACH_FRAME_BYTES_MAX - EMPTY_INPUT_BYTES) / 6)],
  ['characters outside the basic plane', '😀'.repeat((ATTACH_FRAME_BYTES_MAX - EMPTY_INPUT_BYTES) / 4)],
])('a paste as large as a frame may be arrives whole: %s', async (_, data) => {
  const { client, view } = await opened()
  client.send({ type: 'input', data })
  await until('the host has the frame', () => view.received.length === 1)
  expect(view.received[0] === `input ${data}`).toBe(true)
})

test('input above the frame rate closes the socket with a reason', async () => {
  const { client, view } = await opened({ clock: createSettableClock() })
  for (let at = 0; at < ATTACH_FRAMES_AT_ONCE * 2; at++) client.send({ type: 'input', data: 'x' })
  expect((await client.closed).code).toBe(1008)
  expect(client.frames).toEqual([{ type: 'error', message: expect.stringMatching(/^too fast/) }])
  expect(view.received.length).toBe(ATTACH_FRAMES_AT_ONCE)
})

test('a long text may be pasted, up to the byte limit', async () => {
  const { client, view } = await opened({ clock: createSettableClock() })
  const data = 'x'.repeat(60_000)
  const atOnce = Math.floor(ATTACH_INPUT_BYTES_AT_ONCE / 61_000)
  for (let at = 0; at < atOnce; at++) client.send({ type: 'input', data })
  await until('the host has all frames', () => view.received.length === atOnce)
  for (let at = 0; at < 2 * atOnce; at++) client.send({ type: 'input', data })
  expect((await client.closed).code).toBe(1008)
})

test('pings count as frames', async () => {
  const { port, views } = await openServerWithViews({ clock: createSettableClock() })
  const socket = await connectRawSocket(port, PATH)
  const ended = new Promise((resolve) => socket.on('close', resolve))
  socket.resume()
  socket.write(
    Buffer.concat(Array.from({ length: ATTACH_FRAMES_AT_ONCE * 2 }, () => encodeClientFrame(9, ''))),
  )
  await ended
  expect(views[0]?.closed).toBe(1)
})

test('a view that does not read is disconnected, uses little memory, and delays no other view', async () => {
  const { port, views, meters } = await openServerWithViews()
  await connectRawSocket(port, PATH)
  const quick = connectSocket(port, PATH)
  await quick.opened
  const [slow, fast] = views
  if (slow === undefined || fast === undefined) throw new Error('two views were opened')
  const data = 'x'.repeat(ATTACH_DATA_CHARS_MAX)
  const before = process.memoryUsage().rss
  let taken = 0
  for (let at = 0; at < 4_000; at++) {
    if (slow.link.send({ type: 'data', data })) taken += 1
    if (at % 16 === 0) {
      expect(fast.link.send({ type: 'data', data: String(at) })).toBe(true)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const grownMib = (process.memoryUsage().rss - before) / 1024 / 1024
  // The kernel's own buffers come on top.
  expect(taken * data.length).toBeLessThan(ATTACH_BACKLOG_BYTES_MAX + 16 * 1024 * 1024)
  expect(grownMib).toBeLessThan(96)
  expect(await quick.firstFrames(250)).toHaveLength(250)
  expect(meters.counts.get('sockets_cut_off_total attach')).toBe(1)
  expect(slow.link.send({ type: 'data', data })).toBe(false)
})

test('a stop closes every terminal with a reason', async () => {
  const { client, server, view } = await opened()
  void server.close('the service is stopping')
  expect(await client.closed).toEqual({ code: 1001, reason: 'the service is stopping' })
  await until('the host knows that the view is closed', () => view.closed === 1)
})

test('a host API that throws closes one terminal, and the host continues', async () => {
  const { port, hostApi, log } = await openTestServer()
  hostApi.attachView = () => {
    throw new Error('a bug')
  }
  const client = connectSocket(port, PATH)
  expect((await client.closed).code).toBe(1011)
  expect(log.lines.join('\n')).toContain('a bug')
})

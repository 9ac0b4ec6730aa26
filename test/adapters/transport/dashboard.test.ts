/** The dashboard socket: pushes, subscriptions and limits. */
import { describe, expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { configDefaults } from '../../../protocol/config.ts'
import type { DashboardPush } from '../../../protocol/dashboard.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX } from '../../../protocol/limits.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { DRAIN_MS_MAX } from '../../../transport/sockets/bounded-sender.ts'
import {
  DASHBOARD_FRAME_BYTES_MAX,
  DASHBOARD_SOCKETS_MAX,
  DASHBOARD_SUBSCRIPTIONS_MAX,
} from '../../../transport/sockets/dashboard.ts'
import { DASHBOARD_FRAMES_PER_10_SECONDS_MAX } from '../../../transport/sockets/dashboard-socket.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'
import { createRawClient } from '../../support/raw-client.ts'
import { connectRawSocket, connectSocket, encodeClientFrame } from '../../support/socket-client.ts'
import { closeAfterTest, createSettableClock, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const event = (runId: string, index: number): Extract<DashboardPush, { type: 'run-event' }> => ({
  type: 'run-event',
  event: {
    runId,
    index,
    at: '2026-01-31T12:00:00.000Z',
    type: 'log',
    stream: 'stdout',
    text: `${runId} ${index}`,
  },
})
const tickets: DashboardPush = { type: 'tickets', tickets: [] }
const config: DashboardPush = { type: 'config', config: configDefaults }
const workers: DashboardPush = { type: 'workers', workers: [] }
const attention: DashboardPush = { type: 'attention', items: [] }
const tracker: DashboardPush = { type: 'linear-status', linearStatus: { state: 'connected' } }

test('hello comes first, then what needs a person, then every push in order', async () => {
  const { hostApi, port } = await openTestServer()
  const client = connectSocket(port)
  await client.opened
  const pushes = [tickets, event('run-1', 0), workers, config, event('run-2', 0), tracker]
  for (const push of pushes) hostApi.push(push)
  expect(await client.firstFrames(8)).toEqual([hostApi.helloAnswer, attention, ...pushes])
})

describe('a socket that asks for changes', () => {
  const ONE = { ...fakeTicket('ENG-1'), id: 'one' }
  const TWO = { ...fakeTicket('ENG-2'), id: 'two' }

  test('gets a hello without lists, the runs that changed, and every other push as it is', async () => {
    const { hostApi, port } = await openTestServer()
    const client = connectSocket(port, '/ws?changes=1')
    await client.opened
    const run = fakeRun('run-1', 'running')
    hostApi.push({ type: 'run-updated', run })
    for (const push of [event('run-1', 0), workers, config, tracker]) hostApi.push(push)
    const { runs: _, tickets: __, ...hello } = hostApi.helloAnswer
    expect(await client.firstFrames(7)).toEqual([
      hello,
      attention,
      { type: 'runs-changed', changed: [run], removed: [] },
      event('run-1', 0),
      workers,
      config,
      tracker,
    ])
  })

  test('gets of the tickets those that changed since the list before, beside one that gets all', async () => {
    const { hostApi, port } = await openTestServer()
    hostApi.tickets = () => [ONE, TWO]
    const [changes, whole] = [connectSocket(port, '/ws?changes=1'), connectSocket(port)]
    await Promise.all([changes.firstFrames(2), whole.firstFrames(2)])
    const edited = { ...TWO, title: 'Another title' }
    const lists = [[ONE, TWO], [ONE, edited], [edited]]
    for (const tickets of lists) hostApi.push({ type: 'tickets', tickets })
    hostApi.push(tracker)
    expect((await whole.firstFrames(6)).slice(2)).toEqual([
      ...lists.map((tickets) => ({ type: 'tickets', tickets })),
      tracker,
    ])
    expect((await changes.firstFrames(5)).slice(2)).toEqual([
      { type: 'tickets-changed', changed: [edited], removed: [] },
      { type: 'tickets-changed', changed: [], removed: ['one'] },
      tracker,
    ])
  })

  test('is sent at most 4 kB for one ticket of 10,000', async () => {
    const { hostApi, port } = await openTestServer()
    const list = Array.from({ length: 10_000 }, (_, at) => ({ ...fakeTicket(`ENG-${at}`), id: `id-${at}` }))
    hostApi.tickets = () => list
    const client = connectSocket(port, '/ws?changes=1')
    await client.firstFrames(2)
    const tickets = list.map((ticket) => ({ ...ticket }))
    hostApi.push({
      type: 'tickets',
      tickets: tickets.with(7_000, { ...fakeTicket('ENG-7000'), id: 'id-7000' }),
    })
    const [, , frame] = await client.firstFrames(3)
    expect(JSON.stringify(frame).length).toBeLessThan(4_000)
    expect(frame).toMatchObject({ type: 'tickets-changed', changed: [{ identifier: 'ENG-7000' }] })
  })

  test.each(['/ws?changes=0', '/ws?changes', '/ws?change=1'])('does not ask with %s', async (path) => {
    const { port } = await openTestServer()
    await expect(connectSocket(port, path).opened).rejects.toThrow()
  })

  test('keeps its form behind a hello that is read late', async () => {
    const { hostApi, port } = await openTestServer()
    const linearStatus = { state: 'auth-error', error: 'x'.repeat(4 * DASHBOARD_BACKLOG_BYTES_MAX) } as const
    hostApi.helloAnswer = { ...hostApi.helloAnswer, linearStatus }
    const client = connectSocket(port, '/ws?changes=1')
    await client.opened
    hostApi.push({ type: 'run-updated', run: fakeRun('run-1', 'running') })
    const types = (await client.firstFrames(3)).map(({ type }) => type)
    expect(types).toEqual(['hello', 'attention', 'runs-changed'])
  })
})

test('the push of an event is sent as its JSON', async () => {
  const { hostApi, port } = await openTestServer()
  const client = connectSocket(port)
  await client.firstFrames(2)
  const json = Buffer.from('{"type":"run-event","made":"elsewhere “quoted”"}')
  for (const listener of hostApi.listeners) listener({ type: 'run-event', runId: 'run-1', json })
  const [, , frame] = await client.firstFrames(3)
  expect(frame).toEqual({ type: 'run-event', made: 'elsewhere “quoted”' })
})

test('no push is lost or repeated between the hello and the first push', async () => {
  const { hostApi, port } = await openTestServer()
  let pushed = 0
  // Each hello contains the number of the last push, as the real hello does by its content.
  Object.defineProperty(hostApi, 'helloAnswer', { get: () => ({ type: 'hello', knows: pushed }) })
  const pushing = setInterval(() => {
    for (let i = 0; i < 20; i++) hostApi.push(event('run-1', ++pushed))
  }, 1)
  closeAfterTest(() => clearInterval(pushing))
  for (let round = 0; round < 20; round++) {
    const client = connectSocket(port)
    const [hello, , ...events] = await client.firstFrames(31)
    const from = Number(hello?.knows)
    expect(events.map((frame) => Reflect.get(Object(frame.event), 'index'))).toEqual(
      events.map((_, i) => from + 1 + i),
    )
    client.close()
  }
})

test('without subscriptions all run events arrive; with some, only theirs; after the last, all again', async () => {
  const { hostApi, port } = await openTestServer()
  const client = connectSocket(port)
  await client.firstFrames(2)
  const receivedRuns = async (): Promise<string[]> => {
    await client.waitUntilCaughtUp()
    const before = client.frames.length
    for (const run of ['run-1', 'run-2', 'run-3']) hostApi.push(event(run, 0))
    hostApi.push(tickets)
    await client.waitUntilCaughtUp()
    return client.frames
      .slice(before)
      .map((frame) => String(Reflect.get(Object(frame.event), 'runId') ?? frame.type))
  }
  expect(await receivedRuns()).toEqual(['run-1', 'run-2', 'run-3', 'tickets'])
  client.send({ type: 'subscribe', runId: 'run-2' })
  expect(await receivedRuns()).toEqual(['run-2', 'tickets'])
  client.send({ type: 'subscribe', runId: 'run-3' })
  client.send({ type: 'subscribe', runId: 'run-3' })
  expect(await receivedRuns()).toEqual(['run-2', 'run-3', 'tickets'])
  client.send({ type: 'unsubscribe', runId: 'run-2' })
  client.send({ type: 'unsubscribe', runId: 'run-9' })
  expect(await receivedRuns()).toEqual(['run-3', 'tickets'])
  client.send({ type: 'unsubscribe', runId: 'run-3' })
  expect(await receivedRuns()).toEqual(['run-1', 'run-2', 'run-3', 'tickets'])
})

test('a subscription is confirmed when the client asks for it', async () => {
  const { hostApi, port } = await openTestServer()
  const client = connectSocket(port)
  await client.firstFrames(2)
  const { event: first } = event('run-2', 0)
  hostApi.eventsById.set('run-2', [first])
  client.send({ type: 'subscribe', runId: 'run-1' })
  client.send({ type: 'subscribe', runId: 'run-2', confirm: true })
  client.send({ type: 'subscribe', runId: 'run-2', confirm: true })
  client.send({ type: 'subscribe', runId: 'run-3', confirm: false })
  await client.waitUntilCaughtUp()
  const subscribed = { type: 'subscribed', runId: 'run-2', next: 1 }
  expect(client.frames.slice(2)).toEqual([subscribed, subscribed])
})

test('a client that reads the log after the confirmation knows every event', async () => {
  const { hostApi, port, url } = await openTestServer()
  const stored: RunEvent[] = []
  hostApi.runsById.set('run-2', fakeRun('run-2', 'running'))
  hostApi.eventsById.set('run-2', stored)
  const pushing = setInterval(() => {
    for (let i = 0; i < 5; i++) {
      const push = event('run-2', stored.length)
      stored.push(push.event)
      hostApi.push(push)
    }
  }, 1)
  closeAfterTest(() => clearInterval(pushing))
  for (let round = 0; round < 10; round++) {
    const client = connectSocket(port)
    await client.firstFrames(2)
    client.send({ type: 'subscribe', runId: 'run-1' })
    await client.waitUntilCaughtUp()
    client.send({ type: 'subscribe', runId: 'run-2', confirm: true })
    const confirmedAt = () => client.frames.findIndex(({ type }) => type === 'subscribed')
    await until('the confirmation', () => confirmedAt() > 0)
    const headers = { authorization: `Bearer ${TOKEN}` }
    const read = (await (await fetch(`${url}/api/runs/run-2/events`, { headers })).json()) as RunEvent[]
    await until('a push', () => client.frames.length > confirmedAt() + 50)
    const pushed = client.frames
      .slice(confirmedAt() + 1)
      .map((frame) => Number(Reflect.get(Object(frame.event), 'index')))
    const next = Number(client.frames[confirmedAt()]?.next)
    expect(read.length).toBeGreaterThanOrEqual(next)
    expect(pushed).toEqual(pushed.map((_, i) => next + i))
    client.close()
  }
})

test('the subscriptions of one dashboard do not affect another', async () => {
  const { hostApi, port } = await openTestServer()
  const [first, second] = [connectSocket(port), connectSocket(port)]
  await Promise.all([first.firstFrames(2), second.firstFrames(2)])
  first.send({ type: 'subscribe', runId: 'run-1' })
  second.send({ type: 'subscribe', runId: 'run-1' })
  await Promise.all([first.waitUntilCaughtUp(), second.waitUntilCaughtUp()])
  first.close()
  await first.closed
  hostApi.push(event('run-1', 0))
  hostApi.push(event('run-2', 0))
  await second.waitUntilCaughtUp()
  expect(second.frames.slice(2)).toEqual([event('run-1', 0)])
})

test('an invalid frame closes the socket, with a reason that names the field', async () => {
  const { port } = await openTestServer()
  const bad: [string, RegExp][] = [
    ['not json', /JSON/],
    ['null', /./],
    ['{"type":"dance"}', /type/],
    ['{"type":"subscribe"}', /runId/],
    ['{"type":"subscribe","runId":7}', /runId/],
    ['{"type":"subscribe","runId":"../x"}', /runId/],
    ['{"type":"subscribe","runId":"a","more":1}', /more/],
    ['{"type":"subscribe","runId":"a","__proto__":{}}', /__proto__/],
  ]
  for (const [text, reason] of bad) {
    const client = connectSocket(port)
    await client.opened
    client.sendText(text)
    const end = await client.closed
    expect([text, end.code]).toEqual([text, 1008])
    expect(end.reason).toMatch(reason)
    expect(Buffer.byteLength(end.reason)).toBeLessThanOrEqual(123)
  }
})

test('binary frames close the socket with 1003, too long ones with 1009', async () => {
  const { port } = await openTestServer()
  const binary = connectSocket(port)
  await binary.opened
  binary.sendText(new Uint8Array([1, 2, 3]))
  expect(await binary.closed).toMatchObject({ code: 1003 })
  const long = connectSocket(port)
  await long.opened
  long.sendText('x'.repeat(DASHBOARD_FRAME_BYTES_MAX + 1))
  expect(await long.closed).toMatchObject({ code: 1009 })
  const fits = connectSocket(port)
  await fits.opened
  fits.sendText(JSON.stringify({ type: 'subscribe', runId: 'a' }).padEnd(DASHBOARD_FRAME_BYTES_MAX))
  await fits.waitUntilCaughtUp()
  fits.close()
  expect(await fits.closed).toMatchObject({ code: 1005 })
})

test('too many frames close the socket, and pings count', async () => {
  const { port } = await openTestServer({ clock: createSettableClock() })
  const talker = connectSocket(port)
  await talker.opened
  const unsubscribe = JSON.stringify({ type: 'unsubscribe', runId: 'a' })
  for (let i = 0; i <= DASHBOARD_FRAMES_PER_10_SECONDS_MAX; i++) talker.sendText(unsubscribe)
  expect(await talker.closed).toMatchObject({
    code: 1008,
    reason: expect.stringMatching(/frames within 10 seconds/),
  })
  const pinger = await connectRawSocket(port)
  const ended = new Promise((resolve) => pinger.on('close', resolve))
  pinger.on('error', () => {})
  pinger.resume()
  for (let i = 0; i <= DASHBOARD_FRAMES_PER_10_SECONDS_MAX; i++) pinger.write(encodeClientFrame(9, ''))
  await ended
})

test('the count of frames starts again after ten seconds', async () => {
  const clock = createSettableClock()
  const { port } = await openTestServer({ clock })
  const client = await connectRawSocket(port)
  let received = ''
  let ended = false
  client.on('data', (data) => {
    received += data.toString('latin1')
  })
  client.on('close', () => {
    ended = true
  })
  client.resume()
  const unsubscribe = encodeClientFrame(1, JSON.stringify({ type: 'unsubscribe', runId: 'a' }))
  for (let round = 0; round < 3; round++) {
    for (let i = 1; i < DASHBOARD_FRAMES_PER_10_SECONDS_MAX; i++) client.write(unsubscribe)
    // A ping counts as a frame, and its pong confirms that all frames before it were read.
    client.write(encodeClientFrame(9, `round ${round} is read`))
    await until('the answer to a ping', () => ended || received.includes(`round ${round} is read`))
    clock.wind(10_000)
  }
  expect(ended).toBe(false)
})

test('the number of subscriptions is limited', async () => {
  const clock = createSettableClock()
  const { port } = await openTestServer({ clock })
  const client = connectSocket(port)
  await client.opened
  for (let i = 0; i < DASHBOARD_SUBSCRIPTIONS_MAX; i++) {
    client.send({ type: 'subscribe', runId: `run-${i}` })
    if (i % 500 !== 499) continue
    // All allowed frames, and a ping whose pong confirms that they were read.
    await client.waitUntilCaughtUp()
    clock.wind(10_000)
  }
  client.send({ type: 'subscribe', runId: 'run-one-more' })
  expect(await client.closed).toMatchObject({ code: 1008, reason: expect.stringMatching(/1000 runs/) })
})

test('a client that never reads uses only its backlog, and is disconnected', async () => {
  const clock = createSettableClock()
  const { port, hostApi, meters } = await openTestServer({ clock })
  const slow = await connectRawSocket(port)
  const ended = new Promise((resolve) => slow.on('close', resolve))
  slow.on('error', () => {})
  const before = process.memoryUsage().rss
  const text = 'x'.repeat(64 * 1024)
  for (let mib = 0; mib < 512; mib++) {
    for (let i = 0; i < 16; i++)
      hostApi.push({ type: 'linear-status', linearStatus: { state: 'connected', error: text } })
    await new Promise((resolve) => setImmediate(resolve))
  }
  const grownMib = (process.memoryUsage().rss - before) / 1024 / 1024
  process.stdout.write(`slow reader: 512 MiB pushed, the process grew by ${grownMib.toFixed(0)} MiB\n`)
  expect(grownMib).toBeLessThan(128)
  expect(meters.counts.get('sockets_cut_off_total dashboard')).toBe(1)
  expect(meters.counts.get('sockets dashboard')).toBe(1)
  clock.wind(DRAIN_MS_MAX)
  await until('no dashboard is connected', () => meters.counts.get('sockets dashboard') === 0)
  slow.resume()
  await ended
})

test('a slow client does not delay a fast one', async () => {
  const { port, hostApi } = await openTestServer()
  await connectRawSocket(port)
  const quick = connectSocket(port)
  await quick.firstFrames(2)
  const text = 'x'.repeat(64 * 1024)
  for (let i = 0; i < 256; i++) {
    hostApi.push({ type: 'linear-status', linearStatus: { state: 'connected', error: text } })
    if (i % 8 === 7) await quick.firstFrames(3 + i)
  }
  expect(await quick.firstFrames(258)).toHaveLength(258)
})

test('a slow client that catches up receives 1013 and a reason', async () => {
  const { port, hostApi, meters } = await openTestServer({ clock: createSettableClock() })
  const slow = await connectRawSocket(port)
  const chunks: Buffer[] = []
  slow.on('data', (bytes) => chunks.push(bytes))
  const ended = new Promise((resolve) => slow.on('close', resolve))
  slow.pause()
  const text = 'x'.repeat(64 * 1024)
  const needed = Math.ceil((DASHBOARD_BACKLOG_BYTES_MAX * 4) / text.length)
  for (let i = 0; i < needed; i++) {
    hostApi.push({ type: 'linear-status', linearStatus: { state: 'connected', error: text } })
    if (i % 16 === 15) await new Promise((resolve) => setImmediate(resolve))
  }
  await until(
    'the dashboard is disconnected',
    () => meters.counts.get('sockets_cut_off_total dashboard') === 1,
  )
  slow.resume()
  await ended
  const tail = Buffer.concat(chunks).subarray(-125)
  const close = tail.lastIndexOf(0x88)
  expect(tail.readUInt16BE(close + 2)).toBe(1013)
  expect(tail.subarray(close + 4).toString()).toMatch(/^too slow/)
})

test('too many dashboards are refused before the upgrade', async () => {
  const { port, meters } = await openTestServer()
  // Connect in steps, because the listen queue is shorter.
  for (let open = 0; open < DASHBOARD_SOCKETS_MAX; open += 64)
    await Promise.all(Array.from({ length: 64 }, () => connectRawSocket(port)))
  expect(meters.counts.get('sockets dashboard')).toBe(DASHBOARD_SOCKETS_MAX)
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  const reply = await client.ask(
    [
      'GET /ws HTTP/1.1',
      'Host: localhost',
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      `Authorization: Bearer ${TOKEN}`,
      '\r\n',
    ].join('\r\n'),
  )
  expect(reply.status).toBe(503)
})

test('neither compression nor a subprotocol is accepted', async () => {
  const { port } = await openTestServer()
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  const reply = await client.ask(
    [
      `GET /ws?token=${TOKEN} HTTP/1.1`,
      'Host: localhost',
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Extensions: permessage-deflate',
      'Sec-WebSocket-Protocol: chat',
      '\r\n',
    ].join('\r\n'),
  )
  expect(reply.status).toBe(101)
  expect(reply.headers.has('sec-websocket-extensions')).toBe(false)
  expect(reply.headers.has('sec-websocket-protocol')).toBe(false)
})

test('the host makes pushes only while a dashboard is connected', async () => {
  const { hostApi, server, port } = await openTestServer()
  expect(hostApi.listeners.size).toBe(0)
  const [first, second] = [connectSocket(port), connectSocket(port)]
  await Promise.all([first.firstFrames(1), second.firstFrames(1)])
  expect(hostApi.listeners.size).toBe(1)
  first.close()
  await first.closed
  hostApi.push(tickets)
  expect((await second.firstFrames(3)).at(-1)).toEqual(tickets)
  second.close()
  await until('nobody listens', () => hostApi.listeners.size === 0)
  const third = connectSocket(port)
  await third.firstFrames(1)
  expect(hostApi.listeners.size).toBe(1)
  await server.close('done')
  expect(hostApi.listeners.size).toBe(0)
})

test('a hello that fails closes the socket with 1011, and the host continues', async () => {
  const { hostApi, port, log } = await openTestServer()
  const good = hostApi.hello
  hostApi.hello = () => {
    throw new Error('a bug')
  }
  expect(await connectSocket(port).closed).toMatchObject({ code: 1011 })
  expect(log.lines.join()).toContain('a bug')
  hostApi.hello = good
  expect(await connectSocket(port).firstFrames(1)).toEqual([hostApi.helloAnswer])
})

test('a hello larger than the backlog limit is sent, and the pushes meanwhile follow it', async () => {
  const { hostApi, port, meters } = await openTestServer()
  const error = 'x'.repeat(3 * DASHBOARD_BACKLOG_BYTES_MAX)
  hostApi.helloAnswer = { ...hostApi.helloAnswer, linearStatus: { state: 'auth-error', error } }
  const client = connectSocket(port)
  client.opened.then(() => client.send({ type: 'subscribe', runId: 'run-2' }))
  const pushed: DashboardPush[] = []
  const pushAndKeep = (push: DashboardPush) => {
    pushed.push(push)
    hostApi.push(push)
  }
  while (meters.counts.get('sockets dashboard') !== 1) await new Promise((resolve) => setImmediate(resolve))
  for (let i = 0; i < 500; i++) {
    pushAndKeep({ ...tracker })
    pushAndKeep(event('run-2', i))
    if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const [hello, , ...rest] = await client.firstFrames(2 + pushed.length)
  expect(hello?.type).toBe('hello')
  expect(rest).toEqual(pushed)
  expect(meters.counts.get('sockets_cut_off_total dashboard')).toBeUndefined()
})

test('a client that does not read its hello is disconnected like any slow client', async () => {
  const clock = createSettableClock()
  const { hostApi, port, meters } = await openTestServer({ clock })
  const error = 'x'.repeat(3 * DASHBOARD_BACKLOG_BYTES_MAX)
  hostApi.helloAnswer = { ...hostApi.helloAnswer, linearStatus: { state: 'auth-error', error } }
  const slow = await connectRawSocket(port)
  slow.on('error', () => {})
  const text = 'x'.repeat(64 * 1024)
  for (let i = 0; i < 128; i++)
    hostApi.push({ type: 'linear-status', linearStatus: { state: 'connected', error: text } })
  expect(meters.counts.get('sockets_cut_off_total dashboard')).toBe(1)
  clock.wind(DRAIN_MS_MAX)
  expect(meters.counts.get('sockets dashboard')).toBe(0)
})

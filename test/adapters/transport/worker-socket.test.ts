/** The worker socket: admission, frames and limits. */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { WORKER_FRAME_BYTES_MAX, WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../../protocol/limits.ts'
import { DRAIN_MS_MAX } from '../../../transport/sockets/bounded-sender.ts'
import { formatAddress, WORKER_BACKLOG_BYTES_MAX } from '../../../transport/sockets/worker.ts'
import { CREDENTIAL, type FakeWorkerReceiver, WORKER_ID } from '../../support/fake-host-api.ts'
import { createRawClient, type RawReply } from '../../support/raw-client.ts'
import {
  connectRawSocket,
  connectSocket,
  encodeClientFrame,
  type SocketClient,
} from '../../support/socket-client.ts'
import {
  closeAfterTest,
  createSettableClock,
  openTestServer,
  type TestServer,
} from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const PATH = '/ws/worker'

const dial = (port: number): SocketClient => connectSocket(port, PATH, { authorization: '' })

async function connectedReceiver({ hostApi }: TestServer, nth = 0): Promise<FakeWorkerReceiver> {
  await until('the host API has the connection', () => hostApi.workerConnections[nth] !== undefined)
  const receiver = hostApi.workerConnections[nth]
  if (receiver === undefined) throw new Error('no receiver')
  return receiver
}

async function connectWorker(given: Parameters<typeof openTestServer>[0] = {}) {
  const server = await openTestServer(given)
  const client = dial(server.fleetPort)
  await client.opened
  return { ...server, client, receiver: await connectedReceiver(server) }
}

const UPGRADE = [
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]

async function upgrade(port: number, headers: readonly string[] = [], path = PATH): Promise<RawReply> {
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  return client.ask([`GET ${path} HTTP/1.1`, 'Host: localhost', ...UPGRADE, ...headers, '\r\n'].join('\r\n'))
}

test('both listeners accept any worker, and pass frames unchanged', async () => {
  const server = await openTestServer()
  for (const [nth, port] of [server.port, server.fleetPort].entries()) {
    const client = dial(port)
    await client.opened
    const receiver = await connectedReceiver(server, nth)
    client.sendText('{"type":"x","ü":"💡"}')
    client.sendText('not even JSON')
    await until('both frames have arrived', () => receiver.frames.length === 2)
    expect(receiver.frames).toEqual(['{"type":"x","ü":"💡"}', 'not even JSON'])
    expect(receiver.link.address).toBe('127.0.0.1')
    expect(receiver.link.send('{"type":"hello","ü":"💡"}')).toBe(true)
    expect(await client.firstFrames(1)).toEqual([{ type: 'hello', ü: '💡' }])
  }
  expect(server.meters.counts.get('sockets worker')).toBe(2)
})

test('a closed socket is reported once, and nothing is sent after it', async () => {
  const { client, receiver, meters } = await connectWorker()
  client.close()
  await until('the host API knows that the socket is closed', () => receiver.isClosed)
  expect(receiver.link.send('x')).toBe(false)
  receiver.link.close(1000, 'again')
  expect(meters.counts.get('sockets worker')).toBe(0)
})

test('the host API closes with a code and a reason, after everything sent before', async () => {
  const { client, receiver } = await connectWorker({ clock: createSettableClock() })
  for (let i = 0; i < 50; i++)
    receiver.link.send(JSON.stringify({ type: 'filler', text: 'x'.repeat(60_000), i }))
  receiver.link.close(1008, 'a newer connection')
  expect(receiver.link.send('{"type":"late"}')).toBe(false)
  expect(await client.closed).toEqual({ code: 1008, reason: 'a newer connection' })
  expect(client.frames.map(({ i }) => i)).toEqual(Array.from({ length: 50 }, (_, i) => i))
})

test('before registration a longer frame is reported as unreadable', async () => {
  const { client, receiver } = await connectWorker()
  client.sendText('x'.repeat(WORKER_UNREGISTERED_FRAME_BYTES_MAX))
  client.sendText('x'.repeat(WORKER_UNREGISTERED_FRAME_BYTES_MAX + 1))
  expect(await client.closed).toEqual({ code: 1008, reason: 'a frame has at most 65536 bytes' })
  expect(client.frames).toEqual([
    { type: 'rejected', code: 'malformed', reason: 'a frame has at most 65536 bytes' },
  ])
  expect([receiver.frames.length, receiver.unreadableReasons.length]).toEqual([1, 1])
})

test('after registration frames may be long, counted in bytes', async () => {
  const { client, receiver } = await connectWorker()
  receiver.register()
  client.sendText('ä'.repeat(WORKER_FRAME_BYTES_MAX / 2))
  await until('the frame has arrived', () => receiver.frames.length === 1)
  expect(receiver.frames[0]?.length).toBe(WORKER_FRAME_BYTES_MAX / 2)
  client.sendText(`${'ä'.repeat(WORKER_FRAME_BYTES_MAX / 2)}x`)
  expect(await client.closed).toMatchObject({ reason: 'a frame has at most 1048576 bytes' })
})

test('a frame far beyond every limit is not read', async () => {
  const { client, receiver } = await connectWorker()
  receiver.register()
  client.sendText('x'.repeat(2 * WORKER_FRAME_BYTES_MAX))
  // Node's listener sends a close frame.
  expect([1006, 1009]).toContain((await client.closed).code)
  await until('the host API knows that the socket is closed', () => receiver.isClosed)
  expect([receiver.frames, receiver.unreadableReasons]).toEqual([[], []])
})

test('a binary frame is unreadable', async () => {
  const { client, receiver } = await connectWorker()
  client.sendText(new Uint8Array([123, 125]))
  const reason = expect.stringContaining('binary')
  expect(await client.closed).toMatchObject({ code: 1008, reason })
  expect(receiver.unreadableReasons).toEqual([reason])
})

test('text that is not UTF-8 closes the connection', async () => {
  const server = await openTestServer()
  const socket = await connectRawSocket(server.port, PATH)
  const receiver = await connectedReceiver(server)
  socket.on('error', () => {})
  socket.resume()
  socket.write(encodeClientFrame(1, '{}'))
  socket.write(encodeClientFrame(1, Buffer.from([0x7b, 0xff, 0x7d])))
  await until('the socket is closed', () => receiver.isClosed)
  expect(receiver.frames).toEqual(['{}'])
})

test('a fragmented message is one frame with the length of all fragments', async () => {
  const server = await openTestServer()
  const socket = await connectRawSocket(server.port, PATH)
  const receiver = await connectedReceiver(server)
  socket.on('error', () => {})
  socket.resume()
  socket.write(encodeClientFrame(1, '{"a":', { bits: 0 }))
  socket.write(encodeClientFrame(0, '1}'))
  const half = 'x'.repeat(WORKER_UNREGISTERED_FRAME_BYTES_MAX / 2 + 1)
  socket.write(encodeClientFrame(1, half, { bits: 0 }))
  socket.write(encodeClientFrame(0, half))
  await until('the second message is refused', () => receiver.unreadableReasons.length === 1)
  expect(receiver.frames).toEqual(['{"a":1}'])
})

/** A client that never reads, so that its backlog grows. */
async function connectUnreadSocket(
  server: TestServer,
): Promise<{ socket: Socket; receiver: FakeWorkerReceiver }> {
  const socket = await connectRawSocket(server.fleetPort, PATH)
  socket.removeAllListeners('error')
  socket.on('error', () => {})
  return { socket, receiver: await connectedReceiver(server) }
}

function fillBacklog(receiver: FakeWorkerReceiver): number {
  const text = 'x'.repeat(64 * 1024)
  let sent = 0
  while (receiver.link.send(text)) sent += text.length
  return sent
}

test('a worker that does not read is disconnected at the backlog limit', async () => {
  const clock = createSettableClock()
  const server = await openTestServer({ clock })
  const { receiver } = await connectUnreadSocket(server)
  const sent = fillBacklog(receiver)
  expect(sent).toBeGreaterThan(WORKER_BACKLOG_BYTES_MAX)
  expect(sent).toBeLessThan(3 * WORKER_BACKLOG_BYTES_MAX)
  expect(receiver.link.send('x')).toBe(false)
  expect(server.meters.counts.get('sockets_cut_off_total worker')).toBe(1)
  expect(receiver.isClosed).toBe(false)
  clock.wind(DRAIN_MS_MAX)
  await until('the socket is closed', () => receiver.isClosed)
})

test('a slow worker that catches up receives 1013 and a reason', async () => {
  const server = await openTestServer({ clock: createSettableClock() })
  const { socket, receiver } = await connectUnreadSocket(server)
  const chunks: Buffer[] = []
  socket.on('data', (bytes) => chunks.push(bytes))
  socket.pause()
  const ended = new Promise((resolve) => socket.on('close', resolve))
  fillBacklog(receiver)
  socket.resume()
  await ended
  const tail = Buffer.concat(chunks).subarray(-125)
  const close = tail.lastIndexOf(0x88)
  expect(tail.readUInt16BE(close + 2)).toBe(1013)
  expect(tail.subarray(close + 4).toString()).toMatch(/^too slow/)
})

test('frames of a closing socket are ignored', async () => {
  const clock = createSettableClock()
  const server = await openTestServer({ clock })
  const { socket, receiver } = await connectUnreadSocket(server)
  fillBacklog(receiver)
  socket.write(encodeClientFrame(1, '{}'))
  await sleep(50)
  expect(receiver.frames).toEqual([])
})

const proof = (workerId: string, secret: string): string[] => [
  `X-Switchyard-Worker: ${workerId}`,
  `Authorization: Bearer ${secret}`,
]

test('without a free seat only a worker that proves itself in the upgrade may connect', async () => {
  const { hostApi, port, fleetPort } = await openTestServer()
  hostApi.hasSeat = false
  const refused = await upgrade(fleetPort)
  expect(refused).toMatchObject({ status: 503, body: expect.stringMatching(/have not registered yet/) })
  for (const listener of [port, fleetPort]) {
    expect((await upgrade(listener, proof(WORKER_ID, CREDENTIAL))).status).toBe(101)
    for (const wrong of [
      proof(WORKER_ID, 'wc-wrong'),
      proof('wk-unknown', CREDENTIAL),
      [`Authorization: Bearer ${CREDENTIAL}`],
      ['Authorization: Basic x'],
      [...proof(WORKER_ID, CREDENTIAL), `Authorization: Bearer ${CREDENTIAL}`],
      [...proof(WORKER_ID, CREDENTIAL), 'X-Switchyard-Worker: wk-unknown'],
    ])
      expect(await upgrade(listener, wrong)).toMatchObject({ status: 503, body: refused.body })
  }
  expect(hostApi.proofs).toEqual([`worker ${WORKER_ID}`, `worker ${WORKER_ID}`])
})

test('with a free seat a wrong proof counts as none', async () => {
  const { hostApi, port } = await openTestServer()
  expect((await upgrade(port, proof(WORKER_ID, 'wc-wrong'))).status).toBe(101)
  expect((await upgrade(port)).status).toBe(101)
  expect(hostApi.proofs).toEqual([undefined, undefined])
})

test('no worker may connect while the host stops', async () => {
  const { hostApi, port } = await openTestServer()
  hostApi.acceptsWork = false
  expect((await upgrade(port)).status).toBe(503)
  expect(hostApi.workerConnections).toEqual([])
})

test('a refusal of the host API is sent as the close reason', async () => {
  const { hostApi, port } = await openTestServer()
  hostApi.workerRefusal = 'too many connections have not registered yet'
  expect(await dial(port).closed).toEqual({ code: 1013, reason: hostApi.workerRefusal })
})

test('a host API that throws ends one connection, and not the host', async () => {
  const { client, receiver, log, url } = await connectWorker()
  receiver.onText = () => {
    throw new Error('a bug')
  }
  receiver.onClosed = () => {
    throw new Error('another bug')
  }
  client.sendText('{}')
  expect(await client.closed).toEqual({ code: 1011, reason: expect.stringMatching(/^(?!.*bug).*log/) })
  expect(log.lines.join()).toMatch(/a bug[\s\S]*another bug/)
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
})

test('a stop closes workers with 1001 and a reason, on both listeners', async () => {
  const { server, port, fleetPort } = await openTestServer()
  const clients = [dial(port), dial(fleetPort)]
  await Promise.all(clients.map(({ opened }) => opened))
  await server.close('the host is stopping')
  for (const { closed } of clients)
    expect(await closed).toEqual({ code: 1001, reason: 'the host is stopping' })
})

test('web pages get no socket: with a foreign Origin never, and on the fleet listener not at all', async () => {
  const { port, fleetPort, hostApi } = await openTestServer()
  expect((await upgrade(port, ['Origin: https://evil.example'])).status).toBe(403)
  expect((await upgrade(port, ['Origin: null'])).status).toBe(403)
  expect((await upgrade(fleetPort, ['Origin: http://localhost'])).status).toBe(403)
  expect((await upgrade(fleetPort, ['Origin: null'])).status).toBe(403)
  expect(hostApi.workerConnections).toEqual([])
})

test('the fleet listener serves only this socket', async () => {
  const { fleetPort } = await openTestServer()
  for (const path of ['/ws', '/ws/', '/ws/worker/', '/ws/workers', '/ws/runs/x/attach', '/'])
    expect([path, (await upgrade(fleetPort, [], path)).status]).toEqual([path, 404])
  expect((await upgrade(fleetPort)).status).toBe(101)
})

test('an ordinary request is answered with 426', async () => {
  const { fleetPort, url } = await openTestServer()
  for (const base of [url, `http://127.0.0.1:${fleetPort}`])
    expect((await fetch(`${base}${PATH}`)).status).toBe(426)
})

test('pings are answered, and do not count as frames', async () => {
  const server = await openTestServer()
  const socket = await connectRawSocket(server.port, PATH)
  const got = new Promise<Buffer>((resolve) => socket.once('data', resolve))
  socket.resume()
  socket.write(encodeClientFrame(9, 'beat'))
  expect((await got).subarray(-4).toString()).toBe('beat')
  expect((await connectedReceiver(server)).frames).toEqual([])
})

test('an address is formatted for people', () => {
  const of = (text: string) => formatAddress(new TextEncoder().encode(text).buffer)
  expect(of('127.0.0.1')).toBe('127.0.0.1')
  expect(of('0000:0000:0000:0000:0000:ffff:c000:0207')).toBe('192.0.2.7')
  expect(of('0000:0000:0000:0000:0000:0000:0000:0001')).toBe('::1')
  expect(of('2001:0db8:0000:0000:0000:0000:0000:00ff')).toBe('2001:db8::ff')
  expect(of('')).toBe('')
})

test('a silent worker uses little memory', async () => {
  const server = await openTestServer()
  const many = 1_500
  let connected = 0
  const grow = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= 50) {
      await Promise.all(
        Array.from({ length: Math.min(left, 50) }, () => connectRawSocket(server.fleetPort, PATH)),
      )
      for (const receiver of server.hostApi.workerConnections.slice(connected)) receiver.register()
      connected = server.hostApi.workerConnections.length
    }
  }
  await grow(200)
  const before = process.memoryUsage().heapUsed
  await grow(many)
  const each = (process.memoryUsage().heapUsed - before) / many
  // Both ends are in this process, and no garbage was collected: an upper bound, far above one socket's memory.
  process.stdout.write(`worker sockets: ${(each / 1024).toFixed(1)} KiB of heap each, both ends\n`)
  expect(server.meters.counts.get('sockets worker')).toBe(many + 200)
})

/** The duties that only the listener of Node has: limits, upgrades without a socket, and pings. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import type { ListenerApp, SocketBehavior } from '../../../transport/listener-port.ts'
import { createNodeListener, HTTP_HEAD_BYTES_MAX } from '../../../transport/node/node-listener.ts'
import { createRawClient, requestText } from '../../support/raw-client.ts'
import { connectRawSocket, encodeClientFrame } from '../../support/socket-client.ts'
import { useNodeListener } from '../../support/test-listener.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

useNodeListener()

/** Its limits of time are short. */
const quick = createNodeListener({ headSeconds: 1, silenceCheckSeconds: 0.2 })

const AUTH = ['Host: localhost', `Authorization: Bearer ${TOKEN}`]

/** Everything that a connection receives after it has sent these pieces. */
async function receive(port: number, pieces: readonly string[]) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  closeAfterTest(() => socket.destroy())
  const got = { text: '', isClosed: false, socket }
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    got.text += bytes.toString('latin1')
  })
  socket.on('close', () => {
    got.isClosed = true
  })
  for (const piece of pieces) {
    socket.write(Buffer.from(piece, 'latin1'))
    await sleep(20)
  }
  return got
}

test('a head that is too large is refused with 431, and the connection closes', async () => {
  const { port } = await openTestServer()
  const client = createRawClient(port)
  const large = `X: ${'x'.repeat(HTTP_HEAD_BYTES_MAX)}`
  const reply = await client.ask(requestText('GET', '/api/health', [...AUTH, large]))
  expect([reply.status, JSON.parse(reply.body)]).toEqual([431, { error: expect.stringContaining('16384') }])
  expect(reply.headers.get('connection')).toBe('close')
  expect((await client.ask(requestText('GET', '/api/health', AUTH))).status).toBe(200)
  client.close()
})

test('many headers hide no second Host', async () => {
  const { port } = await openTestServer()
  const client = createRawClient(port)
  const many = Array.from({ length: 2_500 }, () => 'a:')
  const reply = await client.ask(
    requestText('GET', '/api/health', ['Host: localhost', ...many, 'Host: evil']),
  )
  expect(reply.status).toBe(403)
  client.close()
})

test('a head and a body that do not arrive are given up', async () => {
  const { port } = await openTestServer({ listener: quick })
  const half = await receive(port, ['GET /api/health HTTP/1.1\r\nHost: loc'])
  const silent = await receive(port, [])
  await until('both connections are closed', () => half.isClosed && silent.isClosed)
  expect(half.text).toMatch(/^HTTP\/1\.1 408 /)
})

test('a request that asks for HTTP/2 receives its reply in HTTP/1.1, with or without a body', async () => {
  const { port, hostApi } = await openTestServer()
  const h2c = ['Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'HTTP2-Settings: AAMAAABkAAQAAP__']
  const get = await receive(port, [requestText('GET', '/api/health', [...AUTH, ...h2c])])
  const headers = [...AUTH, ...h2c, 'Content-Type: application/json']
  const put = requestText('PUT', '/api/settings', headers, '{"patch":{}}')
  const whole = await receive(port, [put])
  const inPieces = await receive(port, [put.slice(0, -8), put.slice(-8, -3), put.slice(-3)])
  await until('all are answered', () => [get, whole, inPieces].every(({ isClosed }) => isClosed))
  for (const { text } of [get, whole, inPieces]) expect(text).toMatch(/^HTTP\/1\.1 200 /)
  expect(hostApi.patches).toEqual([{}, {}])
})

test('a chunked body behind an Upgrade header is refused at once, with the cure', async () => {
  const { port, hostApi } = await openTestServer()
  const h2c = ['Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'HTTP2-Settings: AAMAAABkAAQAAP__']
  const headers = [...AUTH, ...h2c, 'Transfer-Encoding: chunked', 'Content-Type: application/json']
  const head = requestText('PUT', '/api/settings', headers)
  const body = 'c\r\n{"patch":{}}\r\n0\r\n\r\n'
  for (const pieces of [[head + body], [head, body]]) {
    const got = await receive(port, pieces)
    await until('the connection is closed', () => got.isClosed)
    expect(got.text).toMatch(/^HTTP\/1\.1 400 [\s\S]*Upgrade[\s\S]*Content-Length/)
  }
  expect(hostApi.patches).toEqual([])
})

test('an upgrade without a Host, of HTTP/1.0 or with a wrong key opens no socket', async () => {
  const { port, meters } = await openTestServer()
  const lines = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13']
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
  const path = `/ws?token=${TOKEN}`
  const status = async (text: string): Promise<number> => {
    const client = createRawClient(port)
    const reply = await client.ask(text)
    client.close()
    return reply.status
  }
  const upgrade = (...headers: string[]) => requestText('GET', path, [...lines, ...headers])
  expect(await status(upgrade(key))).toBe(400)
  expect(await status(upgrade(key, 'Host: localhost').replace('HTTP/1.1', 'HTTP/1.0'))).toBe(505)
  expect(await status(upgrade('Host: localhost'))).toBe(426)
  expect(await status(upgrade('Host: localhost', 'Sec-WebSocket-Key: short'))).toBe(426)
  expect(await status(upgrade('Host: localhost', `Sec-WebSocket-Key: ${'*'.repeat(24)}`))).toBe(400)
  expect(meters.counts.get('sockets dashboard') ?? 0).toBe(0)
})

test('a broken request behind one that is under way costs that one nothing', async () => {
  const { port, hostApi } = await openTestServer()
  const json = [...AUTH, 'Content-Type: application/json']
  const put = requestText('PUT', '/api/settings', json, '{"patch":{}}')
  for (const next of ['nonsense\r\n\r\n', put]) {
    const got = await receive(port, [put + next])
    await until('the connection is closed', () => got.isClosed)
    expect(got.text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200'])
  }
  expect(hostApi.patches).toHaveLength(2)
})

// ---- sockets of an app of its own ------------------------------------------------------------------------------------

const BACKLOG_BYTES_MAX = 64 * 1024

async function openApp(given: Partial<SocketBehavior<object>> = {}) {
  const app: ListenerApp = quick.createApp()
  closeAfterTest(() => app.close())
  const messages: string[] = []
  const counts = { open: 0, ping: 0, drain: 0 }
  app.ws<object>('/ws', {
    maxPayloadLength: 1_000,
    maxBackpressure: BACKLOG_BYTES_MAX,
    idleTimeout: 60,
    sendPingsAutomatically: true,
    upgrade: (response, request, context) =>
      response.upgrade({}, request.getHeader('sec-websocket-key'), '', '', context),
    open: () => void counts.open++,
    message: (_socket, bytes) => void messages.push(Buffer.from(bytes).toString()),
    ping: () => void counts.ping++,
    drain: () => void counts.drain++,
    close: () => void counts.open--,
    ...given,
  })
  const open = await app.listen('127.0.0.1', 0)
  if (open === undefined) throw new Error('no port')
  return { app, port: open.port, messages, counts }
}

const collect = (socket: Socket): { readonly bytes: Buffer[]; isClosed: boolean } => {
  const got = { bytes: [] as Buffer[], isClosed: false }
  socket.on('data', (bytes) => got.bytes.push(bytes))
  socket.on('error', () => {})
  socket.on('close', () => {
    got.isClosed = true
  })
  return got
}

test('fragments are joined, and limited together', async () => {
  const { port, messages, counts } = await openApp()
  const socket = await connectRawSocket(port)
  socket.write(encodeClientFrame(1, 'hel', { bits: 0 }))
  socket.write(encodeClientFrame(9, 'a ping in between'))
  socket.write(encodeClientFrame(0, 'lo', { bits: 0x80 }))
  await until('the message is whole', () => messages.length === 1)
  expect([messages, counts.ping]).toEqual([['hello'], 1])
  socket.write(encodeClientFrame(1, 'x'.repeat(900), { bits: 0 }))
  socket.write(encodeClientFrame(0, 'x'.repeat(200), { bits: 0x80 }))
  await until('the socket is closed', () => counts.open === 0)
  expect(messages).toHaveLength(1)
})

test('a silent socket is pinged, stays while it answers, and is closed when it does not', async () => {
  const { port, counts } = await openApp({ idleTimeout: 1 })
  const [dead, alive] = [await connectRawSocket(port), await connectRawSocket(port)]
  const got = collect(alive)
  alive.on('data', (bytes) => {
    if (bytes[0] === 0x89) alive.write(encodeClientFrame(10, ''))
  })
  alive.resume()
  dead.on('error', () => {})
  await until('the silent socket is closed', () => counts.open === 1)
  expect(got.bytes.length).toBeGreaterThan(0)
  expect(got.isClosed).toBe(false)
})

test('answers to pings that nobody reads are bounded', async () => {
  const { port, counts } = await openApp()
  const before = process.memoryUsage().rss
  const socket = await connectRawSocket(port)
  socket.on('error', () => {})
  const pings = Buffer.concat(Array.from({ length: 4_096 }, () => encodeClientFrame(9, 'x'.repeat(120))))
  for (let sent = 0; sent < 64; sent++) {
    await new Promise<void>((resolve) => {
      if (!socket.write(pings)) socket.once('drain', resolve)
      else resolve()
    })
  }
  await until('all pings have arrived', () => counts.ping === 64 * 4_096)
  expect((process.memoryUsage().rss - before) / 1024 / 1024).toBeLessThan(64)
})

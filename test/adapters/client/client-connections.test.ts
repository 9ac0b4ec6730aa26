/** Requests and sockets of the client against servers that answer badly, late or not at all. */
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { hasMark } from '../../../client/answer-marks.ts'
import { createBrowserConnection } from '../../../client/browser.ts'
import { createClient } from '../../../client/client.ts'
import type { ClientConnection, SocketEnd } from '../../../client/connection.ts'
import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { HostRefusal, HostUnreachable } from '../../../client/errors.ts'
import { KeptConnections, sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import { readEvents } from '../../../client/run-events.ts'
import { startSocketServer } from '../../support/socket-server.ts'
import { closeAfterTest, TOKEN } from '../../support/test-resources.ts'

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function connectTo(answer: RequestListener): Promise<ClientConnection> {
  const server = createServer(answer)
  const url = await listen(server)
  closeAfterTest(() => server.closeAllConnections())
  const parts = { send: sendByNode, dial: dialByNode, isAnswer: hasMark }
  return { address: () => ({ url, token: TOKEN }), ...parts }
}

test('the time limit of a request includes its answer', async () => {
  const client = createClient(await connectTo((_, response) => response.write('{"ok":')))
  const asked = client.health(undefined, { timeoutMs: 200 })
  await expect(asked).rejects.toThrow('no answer in time')
  await expect(asked).rejects.toBeInstanceOf(HostUnreachable)
})

test('the caller’s abort ends a request within its answer, with its reason', async () => {
  const client = createClient(await connectTo((_, response) => response.write('{"ok":')))
  const stop = new AbortController()
  setTimeout(() => stop.abort(new Error('stopped by hand')), 50)
  await expect(client.health(undefined, { signal: stop.signal })).rejects.toThrow('stopped by hand')
})

test('requests one after the other share a kept connection, and requests at once have one each', async () => {
  const ports = new Set<number | undefined>()
  const waiting: (() => void)[] = []
  let atOnce = 1
  const connection = await connectTo(({ socket }, response) => {
    ports.add(socket.remotePort)
    waiting.push(() => response.end('{"ok":true}'))
    if (waiting.length === atOnce) for (const answer of waiting.splice(0)) answer()
  })
  const kept = new KeptConnections()
  closeAfterTest(() => kept.destroy())
  const client = createClient({ ...connection, send: (request) => sendByNode(request, kept) })
  for (let asked = 0; asked < 3; asked++) await client.health()
  expect(ports.size).toBe(1)
  atOnce = 3
  await Promise.all([client.health(), client.health(), client.health()])
  expect(ports.size).toBe(3)
})

test('a kept connection that the host has closed is opened anew', async () => {
  const ports = new Set<number | undefined>()
  const connection = await connectTo(({ socket }, response) => {
    ports.add(socket.remotePort)
    response.end('{"ok":true}', () => socket.destroySoon())
  })
  const kept = new KeptConnections()
  closeAfterTest(() => kept.destroy())
  const client = createClient({ ...connection, send: (request) => sendByNode(request, kept) })
  await client.health()
  await pause(50)
  await client.health()
  expect(ports.size).toBe(2)
})

test('an answer that is no JSON is a refusal', async () => {
  const client = createClient(await connectTo((_, response) => response.end('<html>')))
  const asked = client.health()
  await expect(asked).rejects.toBeInstanceOf(HostRefusal)
  await expect(asked).rejects.toMatchObject({ status: 200, isLasting: true })
})

test.each(['null', '7', '[]', '{}', '{"error":7}'])(
  '%s in place of a record is a refusal',
  async (answer) => {
    const client = createClient(await connectTo((_, response) => response.end(answer)))
    await expect(client.readRun({ id: 'run-1' })).rejects.toMatchObject({ status: 200, isLasting: true })
  },
)

test.each(['null', '{}', '[null]', '[{}]'])('%s in place of a list is a refusal', async (answer) => {
  const client = createClient(await connectTo((_, response) => response.end(answer)))
  await expect(client.listRuns()).rejects.toBeInstanceOf(HostRefusal)
})

test('a frame that no host sends ends a feed with a sentence', async () => {
  const { port } = await startSocketServer(undefined, (peer) => peer.send('7'))
  const address = () => ({ url: `http://127.0.0.1:${port}`, token: TOKEN })
  const ended = new Promise<Error>((onEnd) => {
    const feed = new DashboardFeed(
      { address, send: sendByNode, dial: dialByNode },
      { onFrame: () => {}, onEnd },
    )
    closeAfterTest(() => feed.close())
  })
  expect(await ended).toBeInstanceOf(HostUnreachable)
})

test('a download that breaks off is a host out of reach', async () => {
  const connection = await connectTo((_, response) => {
    response.write('half')
    setTimeout(() => response.destroy(), 50)
  })
  const { body } = await createClient(connection).readArtifact({ id: 'run-1', name: 'report' })
  const read = async () => {
    for await (const part of body) expect(String(part)).toBe('half')
  }
  await expect(read()).rejects.toBeInstanceOf(HostUnreachable)
})

test('what another server answers cannot control a terminal', async () => {
  const connection = await connectTo((_, response) => response.end('[\x1bc]'))
  const events = readEvents(connection, 'run-1')
  const error: unknown = await events.next().catch((reason) => reason)
  expect(error).toBeInstanceOf(HostUnreachable)
  expect(String(error)).toContain('\u{fffd}')
  expect(String(error)).not.toContain('\x1b')
})

test('a socket that is closed before it dials reaches no host', async () => {
  let connections = 0
  const url = await listen(
    createTcpServer((socket) => {
      connections += 1
      closeAfterTest(() => socket.destroy())
    }),
  )
  let onEnd: (end: SocketEnd) => void = () => {}
  const ended = new Promise<SocketEnd>((resolve) => {
    onEnd = resolve
  })
  dialByNode({ url, token: TOKEN }, '/ws', { onOpen: () => {}, onText: () => {}, onEnd }).close()
  expect(await ended).toEqual({ reason: 'closed' })
  await pause(50)
  expect(connections).toBe(0)
})

test('a browser’s fetch is not called as the method of another object', async () => {
  const callers: unknown[] = []
  const connection = createBrowserConnection({
    origin: 'http://127.0.0.1:4402',
    fetch: async function (this: unknown) {
      callers.push(this)
      return new Response('{"ok":true}')
    },
    WebSocket: class {
      readyState = 0
      bufferedAmount = 0
      onopen = null
      onmessage = null
      onclose = null
      send() {}
      close() {}
    },
  })
  await createClient(connection).health()
  expect(callers).toEqual([undefined])
})

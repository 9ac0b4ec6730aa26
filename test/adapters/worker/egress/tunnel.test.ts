/** Tests of the order in which two joined sockets close. */
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { runTunnel } from '../../../../worker/sandbox/egress/egress-proxy.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const sockets: Socket[] = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

/** The two ends of a connection over a Unix socket, whose buffers are small. */
async function pair(): Promise<[near: Socket, far: Socket]> {
  const path = join(tempFolder(), 'socket')
  const server = createServer({ allowHalfOpen: true })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve))
  const near = connect({ path, allowHalfOpen: true })
  const far = await accepted
  server.close()
  for (const socket of [near, far]) socket.on('error', () => {})
  sockets.push(near, far)
  return [near, far]
}

async function joinedSockets() {
  const [client, inner] = await pair()
  const [outer, server] = await pair()
  const clock = new ManualClock()
  return { client, server, clock, over: runTunnel(inner, outer, clock) }
}

test('bytes that a server sent before it closed reach a slow client', async () => {
  const { client, server, clock, over } = await joinedSockets()
  // The last piece is small enough to fit beside a full buffer.
  const total = 8 * 1024 * 1024 + 1_000
  client.end()
  server.resume().on('end', () => server.end(Buffer.alloc(total)))
  let got = 0
  client.on('data', (bytes) => {
    got += bytes.length
    client.pause()
    setTimeout(() => client.resume(), 1)
  })
  await over
  await until('all bytes have arrived', () => got === total)
  expect(clock.timers).toBe(0)
})

test('a side that closed before the join closes the other', async () => {
  const [, inner] = await pair()
  const [outer, server] = await pair()
  const closed = new Promise((resolve) => inner.on('close', resolve))
  inner.destroy()
  await closed
  const ended = new Promise((resolve) => server.resume().on('end', resolve))
  await runTunnel(inner, outer, new ManualClock())
  await ended
})

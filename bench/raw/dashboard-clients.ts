/**
 * Many dashboards in one process: raw sockets that connect and then only count received bytes.
 *
 * Arguments: port, number of dashboards, and a token unless it is `WATCH_TOKEN`. Prints `ready` when all have their
 * hello. For each number on its input it waits until each dashboard has received that many more bytes, and prints
 * the elapsed milliseconds.
 */
import { createConnection } from 'node:net'
import { createInterface } from 'node:readline'
import { WATCH_PATH, WATCH_TOKEN } from './dashboard-protocol.ts'
import { upgradeRequest } from './websocket-client.ts'

const [port, count] = process.argv.slice(2, 4).map(Number)
const token = process.argv[4] ?? WATCH_TOKEN
const handshake = upgradeRequest(`${WATCH_PATH}?token=${token}`)

let received = 0
let expected = Number.POSITIVE_INFINITY
let onReached = (): void => {}

await Promise.all(Array.from({ length: count ?? 0 }, openWatcher))
// By then a hello sent right after the handshake has arrived, too.
await new Promise((resolve) => setTimeout(resolve, 300))
console.log('ready')

for await (const line of createInterface({ input: process.stdin })) {
  const from = performance.now()
  received = 0
  expected = Number(line) * (count ?? 0)
  await new Promise<void>((resolve) => {
    onReached = resolve
  })
  console.log(performance.now() - from)
}
process.exit(0)

function openWatcher(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({
      host: '127.0.0.1',
      port: port ?? 0,
      // All sockets share one buffer, because only the handshake is ever read.
      onread: { buffer: Buffer.allocUnsafe(256 * 1024), callback: onBytes },
    })
    socket.write(handshake)
    socket.once('error', reject)
    // Bytes that a closed dashboard will never receive would be awaited forever.
    socket.once('close', () => {
      throw new Error('the server closed the socket of a dashboard')
    })
    let opened = false
    function onBytes(length: number, bytes: Uint8Array): boolean {
      if (!opened) {
        if (
          !Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1').startsWith('HTTP/1.1 101 ')
        )
          reject(new Error('the handshake was refused'))
        opened = true
        resolve()
        return true
      }
      received += length
      if (received >= expected) {
        expected = Number.POSITIVE_INFINITY
        onReached()
      }
      return true
    }
  })
}

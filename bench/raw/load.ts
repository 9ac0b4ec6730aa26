/**
 * A load generator: raw sockets, each with a batch of prepared requests in flight; responses are counted by their length
 * alone.
 *
 * Argument: a `LoadOrder` as JSON. Prints the counts as JSON. All responses to the same request have the same
 * length, so the first one, which is parsed, gives the end of all others. A batch needs one write and few reads, so the
 * generator costs less than the server. The wait of a request is that of its batch.
 */
import { createConnection } from 'node:net'
import { ResponseSplitter } from './response-splitter.ts'

interface LoadOrder {
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** A JSON body; without it the request is a GET. */
  readonly body?: string
  readonly expect: number
  readonly ms: number
  readonly connections: number
  /** How many requests a connection sends at once. */
  readonly batch: number
}

const order = JSON.parse(process.argv[2] ?? '{}') as LoadOrder
const { body = '' } = order
const about =
  body === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
const head = Object.entries({ host: '127.0.0.1', ...order.headers, ...about }).map(
  ([name, value]) => `${name}: ${value}\r\n`,
)
const method = body === '' ? 'GET' : 'POST'
const request = Buffer.from(`${method} ${order.path} HTTP/1.1\r\n${head.join('')}\r\n${body}`)
const batch = Buffer.concat(Array.from({ length: order.batch }, () => request))
const waits: number[] = []

const from = performance.now()
const until = from + order.ms
await Promise.all(Array.from({ length: order.connections }, runConnection))
const seconds = (performance.now() - from) / 1000
const { user, system } = process.cpuUsage()
const requests = waits.length * order.batch
waits.sort((a, b) => a - b)
const at = (part: number): number => waits[Math.floor(waits.length * part)] ?? 0
const counted = { perSecond: requests / seconds, p50Ms: at(0.5), p99Ms: at(0.99) }
console.log(JSON.stringify({ ...counted, generatorMicros: (user + system) / requests }))

function runConnection(): Promise<void> {
  return new Promise((resolve, reject) => {
    const splitter = new ResponseSplitter(order.expect)
    let sentAt = 0
    let open = 0
    const sendBatch = (): void => {
      sentAt = performance.now()
      open = order.batch
      socket.write(batch)
    }
    const socket = createConnection({ host: '127.0.0.1', port: order.port, noDelay: true }, sendBatch)
    socket.on('data', (bytes) => {
      open -= splitter.countCompleted(bytes)
      if (open > 0) return
      const now = performance.now()
      waits.push(now - sentAt)
      if (now < until) sendBatch()
      else socket.end()
    })
    socket.on('error', reject)
    socket.on('close', () => resolve())
  })
}

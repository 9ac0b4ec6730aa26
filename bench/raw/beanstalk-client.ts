/**
 * Connects producers and workers to beanstalkd, whose protocol is lines of text.
 *
 * A connection has one command open at a time, so each producer and each slot of a worker is a connection.
 */
import { createConnection, type Socket } from 'node:net'
import type { QueueClient, QueueLoadOptions, QueueWorkerCallbacks } from './queue-load-protocol.ts'

const PRIORITY = 0
const DELAY_SECONDS = 0
/** Longer than any job takes, so no job runs twice. */
const TIME_TO_RUN_SECONDS = 600

export async function connectBeanstalk(
  { port, producers, workers, slots }: QueueLoadOptions,
  callbacks: QueueWorkerCallbacks,
): Promise<QueueClient> {
  const connect = (): BeanstalkConnection => new BeanstalkConnection(port)
  const producing = Array.from({ length: producers }, connect)
  const working = Array.from({ length: workers * slots }, connect)
  let isClosed = false
  for (const connection of working) void work(connection, callbacks, () => isClosed)
  return {
    async enqueue(producer, job) {
      const put = `put ${PRIORITY} ${DELAY_SECONDS} ${TIME_TO_RUN_SECONDS} ${job.length}`
      await producing[producer]?.request(put, 'INSERTED', job)
    },
    async close() {
      isClosed = true
      for (const connection of [...producing, ...working]) connection.destroy()
    },
  }
}

async function work(
  connection: BeanstalkConnection,
  { onJob, onAcked }: QueueWorkerCallbacks,
  isClosed: () => boolean,
): Promise<void> {
  while (!isClosed()) {
    const reserved = await connection.request('reserve', 'RESERVED')
    await onJob()
    await connection.request(`delete ${reserved.split(' ')[1]}`, 'DELETED')
    onAcked()
  }
}

class BeanstalkConnection {
  readonly #socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #onResponse = (_: string): void => {}

  constructor(port: number) {
    this.#socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
    this.#socket.on('data', (bytes) => this.#read(bytes))
  }

  /** Returns the first line of the response, which must begin with `wanted`. */
  async request(command: string, wanted: string, body?: Buffer): Promise<string> {
    const parts = body === undefined ? [] : [body, Buffer.from('\r\n')]
    this.#socket.write(Buffer.concat([Buffer.from(`${command}\r\n`), ...parts]))
    const line = await new Promise<string>((resolve) => {
      this.#onResponse = resolve
    })
    if (!line.startsWith(wanted)) throw new Error(`beanstalkd answered ${line} to ${command}`)
    return line
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #read(bytes: Buffer): void {
    this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes])
    const end = this.#received.indexOf('\r\n')
    if (end < 0) return
    const line = this.#received.toString('latin1', 0, end)
    if (this.#received.length < end + 2 + bodyBytes(line)) return
    this.#received = Buffer.alloc(0)
    this.#onResponse(line)
  }
}

/** Only a reserved job has a body, which ends with a line break. */
function bodyBytes(line: string): number {
  const [word, , length] = line.split(' ')
  return word === 'RESERVED' ? Number(length) + 2 : 0
}

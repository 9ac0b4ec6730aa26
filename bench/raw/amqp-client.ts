/**
 * Connects producers and workers to a quorum queue of RabbitMQ.
 *
 * Publishers wait for confirms. A worker's slots are its prefetch count, and it acknowledges a job after its work.
 */
import { Connection, type Publisher } from 'rabbitmq-client'
import type { QueueClient, QueueLoadOptions, QueueWorkerCallbacks } from './queue-load-protocol.ts'

const QUEUE = 'jobs'
const queueOptions = { queue: QUEUE, durable: true, arguments: { 'x-queue-type': 'quorum' } } as const
const CHANNELS_PER_CONNECTION = 8

export async function connectAmqp(
  { port, producers, workers, slots }: QueueLoadOptions,
  callbacks: QueueWorkerCallbacks,
): Promise<QueueClient> {
  const connections: Connection[] = []
  const connect = (): Connection => {
    const connection = new Connection({ hostname: '127.0.0.1', port, noDelay: true })
    connection.on('error', failOn)
    connections.push(connection)
    return connection
  }
  await connect().queueDeclare(queueOptions)
  for (let worker = 0; worker < workers; worker++) await startWorker(connect(), slots, callbacks)
  const publishers: Publisher[] = []
  while (publishers.length < producers) {
    const connection = connect()
    for (let channel = 0; channel < CHANNELS_PER_CONNECTION && publishers.length < producers; channel++)
      publishers.push(connection.createPublisher({ confirm: true }))
  }
  return {
    async enqueue(producer, job) {
      await publishers[producer]?.send({ routingKey: QUEUE, durable: true }, job)
    },
    async close() {
      await Promise.all(connections.map((connection) => connection.close()))
    },
  }
}

function startWorker(
  connection: Connection,
  slots: number,
  { onJob, onAcked }: QueueWorkerCallbacks,
): Promise<void> {
  return new Promise((resolve) => {
    const options = { queue: QUEUE, queueOptions, qos: { prefetchCount: slots } }
    const consumer = connection.createConsumer(options, async () => {
      await onJob()
      // The acknowledgement is written right after this handler.
      setImmediate(onAcked)
    })
    consumer.on('error', failOn)
    consumer.once('ready', resolve)
  })
}

function failOn(error: unknown): never {
  throw error
}

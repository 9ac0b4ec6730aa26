/** The commands for a load process of a peer, one line of JSON each, and its clients. */
export type QueueProtocol = 'amqp' | 'beanstalk'

export interface QueueLoadOptions {
  readonly protocol: QueueProtocol
  readonly port: number
  readonly producers: number
  readonly workers: number
  readonly slots: number
}

export type QueueLoadCommand =
  /** Enqueues this many jobs while workers execute them. Responds with `EnqueueTiming`. */
  | { readonly do: 'jobs'; readonly count: number }
  /** Enqueues jobs one after the other, each after the end of the previous one. Responds with `DispatchWaits`. */
  | { readonly do: 'dispatches'; readonly count: number; readonly restMs: number }

export interface QueueClient {
  /** Resolves when the broker has confirmed the job. Each producer has one job unconfirmed. */
  enqueue(producer: number, job: Buffer): Promise<void>
  close(): Promise<void>
}

export interface QueueWorkerCallbacks {
  /** A worker has received a job; resolves when the job is done. */
  readonly onJob: () => Promise<void>
  /** The job is acknowledged. */
  readonly onAcked: () => void
}

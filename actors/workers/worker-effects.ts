/**
 * Effects of the worker modules.
 */
import type { RejectionCode } from '../../protocol/frames.ts'
import type { ConnectionEffect } from './connection.machine.ts'

/** Effects of workers and their connections, run after the commit that caused them. */
export type WorkerEffect =
  | ConnectionEffect
  /** The enrollment is on disk, so the worker may receive its credential. */
  | { readonly type: 'worker.send registered'; readonly connection: number }
  | {
      readonly type: 'worker.refuse connection'
      readonly connection: number
      readonly code: RejectionCode
      readonly reason: string
    }
  | { readonly type: 'worker.revoke connection'; readonly connection: number; readonly reason: string }
  | { readonly type: 'worker.send state'; readonly workerId: string }
  /** Tells a worker to delete the sandbox of a finished run. */
  | { readonly type: 'worker.send discard'; readonly workerId: string; readonly runId: string }
  /** Sends the current workers to the dashboards. */
  | { readonly type: 'worker.push workers' }

/** An enrolled worker as the registry knows it. */
import type { WorkerFacts } from '../../core/fleet/obstacles.ts'
import type { WorkerState } from '../../protocol/worker.ts'
import type { Setback } from './setbacks.ts'
import type { WorkerContext } from './worker.machine.ts'

/** Its stored context, and what is known in memory only. */
export interface EnrolledWorker extends WorkerFacts {
  /** An interrupted agent can go on in its session there. */
  readonly continuesSessions: boolean
  /** The worker publishes work with keys when a job says so, and otherwise none. */
  readonly holdsKeys: boolean
  context: WorkerContext
  state: WorkerState
  /** Ids of the worker's leases. */
  readonly leases: Set<string>
  connection: CurrentConnection | undefined
  lastSeenAt: number | undefined
  attachSessions: number
  /** The machine said that it ends. A lasting worker that says so only sleeps. */
  readonly isEnding: boolean
  /** The machine is gone with nothing left to report, and has left its seat. */
  readonly hasEnded: boolean
  pausedUntil: number
  /** Why it got that pause, in its words. */
  refusal?: string
  hold?: string
  fullDisk?: string
  /** Monotonic instant of the worker's last frame. */
  lastFrameAt: number
  readonly refusals: { readonly at: number; readonly class: string; readonly detail: string }[]
  readonly setbacks: Map<string, Setback>
  /** By subject, how often the worker has tried it in vain since it could use it last. */
  readonly setbackTries: Map<string, number>
  /** The number of the connection on which the worker has accepted a dispatch. */
  acceptedOn: number | undefined
}

/** The current connection of a worker. */
export interface CurrentConnection {
  readonly number: number
  readonly since: string
  readonly address: string
}

/** The ports of a worker's supervisor: the host that it asks, and the driver that starts and stops the worker. */
import type { OwnDemand } from './supervision.ts'

/** `lift` ends the supervisor's own drain. */
export type DemandRequest = 'read' | 'drain' | 'lift'

export type DemandAnswer =
  | { readonly is: 'answered'; readonly demand: OwnDemand }
  | { readonly is: 'unanswered'; readonly reason: string }

export interface DemandPort {
  /** Never throws. A request without an answer may have been carried out, also later. */
  ask(request: DemandRequest): Promise<DemandAnswer>
}

/** `exitCode`: the supervisor ends with it, because a new try cannot help. */
export type DriverResult =
  | { readonly is: 'done' }
  | { readonly is: 'failed'; readonly reason: string; readonly exitCode?: number }

export interface WorkerDriver {
  /** Whether the worker is a process of the supervisor, which then starts first and stops with it. */
  readonly ownsWorker: boolean
  /** Resolves with `done` when the worker runs or will run, and no earlier stop can still end it. */
  start(): Promise<DriverResult>
  /** Resolves with `done` when the worker has ended. */
  stop(): Promise<DriverResult>
  /** The worker ended although nobody stopped it. */
  onEnded?: (result: DriverResult) => void
  /** Ends the worker at once, while it is being stopped. */
  stopNow?(): void
}

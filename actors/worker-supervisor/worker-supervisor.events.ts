/** The events, the effects and the context of the worker supervisor machine. */
import type { OwnDemand, SupervisionMemory, SupervisionSettings } from '../../core/fleet/supervision.ts'
import type { DemandRequest } from '../../core/fleet/supervision-ports.ts'

export const WORKER_SUPERVISOR = 'worker-supervisor'

export interface SupervisorContext {
  readonly settings: SupervisionSettings
  readonly memory: SupervisionMemory
  /** Requests without an answer in a row. */
  readonly silences: number
  readonly end: SupervisorEnd
}

export interface SupervisorEnd {
  readonly exitCode: number
  readonly reason: string
}

export interface SupervisorInput {
  readonly settings: SupervisionSettings
  readonly at: number
}

/** `at` and `retryAt` are instants of the monotonic clock. */
export type SupervisorEvent =
  | { readonly type: 'answered'; readonly at: number; readonly demand: OwnDemand }
  | { readonly type: 'unanswered' }
  | { readonly type: 'poll due' }
  | { readonly type: 'started'; readonly at: number }
  | { readonly type: 'not started'; readonly at: number; readonly retryAt: number }
  | { readonly type: 'stopped'; readonly at: number }
  | { readonly type: 'not stopped'; readonly at: number; readonly retryAt: number }
  /** The worker's process ended by itself. */
  | { readonly type: 'worker ended'; readonly at: number }
  | { readonly type: 'pause over' }
  /** A new start cannot help. */
  | { readonly type: 'worker failed for good'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'stop requested' }
  | { readonly type: 'released' }

export type SupervisorEffect =
  | { readonly type: 'supervision.ask'; readonly request: DemandRequest }
  | { readonly type: 'supervision.wait'; readonly silences: number }
  | { readonly type: 'supervision.start worker'; readonly failures: number }
  | { readonly type: 'supervision.stop worker'; readonly failures: number }
  | { readonly type: 'supervision.pause'; readonly failures: number }
  | { readonly type: 'supervision.release worker'; readonly stopPending: boolean }
  | { readonly type: 'supervision.finish'; readonly end: SupervisorEnd }

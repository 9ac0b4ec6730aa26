/** The facts by which a ticket, or its queued run, is explained. */

import type { ServiceConfig } from '../../protocol/config.ts'
import type { RunStatus, Ticket } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { PlacementRequest, WaitReason, WorkerFacts } from '../fleet/obstacles.ts'
import type { TrackedTicket } from '../ports.ts'
import type { RepoVerdict } from '../tickets/repo.ts'

/** A worker, and the provider of its sandboxes when it is known. */
export interface ExplainedWorker extends WorkerFacts {
  readonly provider?: string
}

export interface ExplainedRun {
  readonly isFollowUp: boolean
  /** Its agent is done, and its work is to be published. */
  readonly publishes: boolean
  /** The reason that the scheduler shows; undefined when it would dispatch the run now. */
  readonly waitsFor?: WaitReason
  /** Number of runs that are dispatched before it; undefined when it waits for more than a worker. */
  readonly ahead?: number
  /** The name of the worker that was sent the run and has not answered yet. */
  readonly sentTo?: string
}

export interface ExplainFacts {
  /** Wall milliseconds. */
  readonly now: number
  readonly config: ServiceConfig
  readonly tracker: TrackerStatus
  readonly ticket: Ticket
  /** The ticket in the latest listing of the tracker. */
  readonly tracked?: TrackedTicket
  /** `refused`: the pull request of a follow-up has no repository, and why. */
  readonly repo: RepoVerdict | { readonly is: 'refused'; readonly reason: string }
  /** The open blockers, with the status of their newest run. */
  readonly blockers: readonly { readonly ticket: Ticket; readonly status?: RunStatus }[]
  /** The cycle in which the ticket or one of its blockers is; empty without one. */
  readonly cycle: readonly string[]
  /** The queued run of the ticket. */
  readonly run?: ExplainedRun
  /** Another active run of the ticket, or the ended one after which the ticket has not changed its state. */
  readonly otherRun?: { readonly id: string; readonly status: RunStatus; readonly isMerged: boolean }
  /** The service dispatches nothing for this reason. */
  readonly serviceProblem?: string
  /** Number of runs that a resume would dispatch at once. */
  readonly startable: number
  readonly request: PlacementRequest
  readonly workers: readonly ExplainedWorker[]
}

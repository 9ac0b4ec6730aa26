/** The facts by which a ticket, or its queued run, is explained, and the functions that make a gate of a judgement. */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Gate, GateId } from '../../protocol/explain.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { RunStatus, Ticket } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { PlacementRequest, WaitReason, WorkerFacts } from '../fleet/obstacles.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import { toSingleLine, truncate } from '../safe-text.ts'
import type { RepoVerdict } from '../tickets/repo.ts'

export interface ExplainedWorker extends WorkerFacts {
  /** The provider of its sandboxes, when it is known. */
  readonly provider?: string
  /** Wall milliseconds; undefined for one that never came. */
  readonly lastSeenAt?: number
}

export type SentTo = Pick<ExplainedWorker, 'id' | 'name' | 'online' | 'lastSeenAt'>

export interface ExplainedRun {
  readonly isFollowUp: boolean
  /** Its agent is done, and its work is to be published. */
  readonly publishes: boolean
  /** The reason that the scheduler shows; undefined when it would dispatch the run now. */
  readonly waitsFor?: WaitReason
  /** Number of runs that are dispatched before it; undefined when it waits for more than a worker. */
  readonly ahead?: number
  /** The worker that was sent the run and has not answered yet. */
  readonly sentTo?: SentTo
}

/** An open blocker. */
export interface ExplainedBlocker {
  readonly ticket: Ticket
  /** The status of its newest run. */
  readonly status?: RunStatus
  /** The command that shows the open pull request of this run. */
  readonly review?: string
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
  readonly blockers: readonly ExplainedBlocker[]
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

// ---- gates -------------------------------------------------------------------------------------------------------

/** Builds gates. A message or a cure that names foreign texts may be long, so both are bounded. */
export const pass = (id: GateId, message: string): Gate => gate(id, 'pass', message, undefined)
/** The gate opens by itself. */
export const wait = (id: GateId, message: string, cure?: string): Gate => gate(id, 'wait', message, cure)
/** A person must act. */
export const stop = (id: GateId, message: string, cure?: string): Gate => gate(id, 'stop', message, cure)

/** The words before a cure that time makes unnecessary. */
export const orElse = (command: string): string => `wait, or: ${command}`

function gate(id: GateId, status: Gate['status'], message: string, cure: string | undefined): Gate {
  return {
    id,
    status,
    message: bounded(message),
    ...(cure === undefined ? {} : { cure: bounded(cure) }),
  }
}

const bounded = (text: string): string => truncate(toSingleLine(text), TEXT_CHARS_MAX)

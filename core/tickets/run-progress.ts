/**
 * Decides where a run's ticket goes (when work starts, when there is something to review, when it is merged, and when
 * the run leaves nothing behind), whether a run ends because its ticket has left, and whether a ticket becomes a run by
 * itself.
 *
 * A run *holds* its ticket from the queue to its end if there is a state from which or into which it may be released.
 * The hold remembers the state from which the run took the ticket, and ends as soon as somebody else moves the ticket; a
 * run that starts again takes it anew. Only a held ticket is released.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { extend } from '../extend.ts'
import { isSameName } from './names.ts'

type StateSettings = Pick<
  ServiceConfig['tracker'],
  'startedState' | 'reviewState' | 'doneState' | 'releasedState'
>

/** `released`: the run is over and left nothing to review. */
export type TicketStep = 'started' | 'review' | 'done' | 'released'

/** Returns the step that follows from a new status of a run; undefined when the ticket stays. */
export function nextTicketStep(run: Run): TicketStep | undefined {
  const { status, result, prUrl, prState } = run
  if (status === 'preparing') return 'started'
  if (status === 'failed' || status === 'cancelled') return 'released'
  if (status !== 'completed') return undefined
  // A retry that changed nothing may leave the open pull request of an earlier attempt.
  const isOpen = prUrl !== undefined && prState !== 'merged' && prState !== 'closed'
  const hasWork = result?.prUrl !== undefined || isOpen
  if (!hasWork) return 'released'
  return prState === 'merged' ? 'done' : 'review'
}

/** Returns the state of a step other than `released`; undefined when the ticket stays where it is. */
export function stateOfStep(
  step: Exclude<TicketStep, 'released'>,
  { startedState, reviewState, doneState }: StateSettings,
): string | undefined {
  if (step === 'started') return startedState
  return step === 'done' ? (doneState ?? reviewState) : reviewState
}

/** Whether the settings name a state from which, or into which, a run that leaves nothing behind releases its ticket. */
export const holdsTickets = ({ startedState, releasedState }: StateSettings): boolean =>
  startedState !== undefined || releasedState !== undefined

/**
 * Records that a run holds the ticket. A ticket that an earlier run left in the started state counts as taken from the
 * state in which this run was created. Returns the same object when the ticket is held already.
 */
export function holdTicket(
  memory: TicketObservation,
  { ticket }: Pick<Run, 'ticket'>,
  { startedState }: StateSettings,
): TicketObservation {
  if (memory.origin !== undefined) return memory
  return extend(memory, { origin: isIn(memory, startedState) ? ticket.state : memory.state })
}

/** Returns the same object when the ticket is not held. */
export function endHold(memory: TicketObservation): TicketObservation {
  if (memory.origin === undefined) return memory
  const { origin: _, ...rest } = memory
  return rest
}

export interface TicketRelease {
  readonly state: string
  /** The states from which the ticket may be moved: from any other somebody else has moved it to. */
  readonly from: readonly string[]
}

/** Returns where a held ticket goes when its run leaves nothing behind; undefined when somebody else moved it. */
export function releaseTicket(
  memory: TicketObservation,
  { ticket }: Pick<Run, 'ticket'>,
  { startedState, releasedState }: StateSettings,
): TicketRelease | undefined {
  const isPut = memory.put !== undefined && isSameName(memory.put, memory.state)
  // Earlier versions did not remember the origin.
  const origin = memory.origin ?? (isPut && isIn(memory, startedState) ? ticket.state : undefined)
  if (origin === undefined) return undefined
  const { state, put } = memory
  // A move that is not confirmed may not have been made.
  const from = isPut ? [state] : [state, origin, ...(put === undefined ? [] : [put])]
  return { state: releasedState ?? origin, from }
}

export interface RememberedMove {
  readonly state: string
  readonly from?: string
  readonly only?: readonly string[]
}

/**
 * Returns the unanswered move of a ticket from its observation, which has the new state already. Where that is neither the
 * started state nor one for a result, a run that is over releases the ticket.
 */
export function rememberedMove(
  memory: TicketObservation,
  { startedState, reviewState, doneState }: StateSettings,
): RememberedMove {
  const { state, origin } = memory
  if (startedState === undefined) return { state }
  if (isIn(memory, startedState)) return { state, from: origin ?? startedState }
  const hasResult = isIn(memory, reviewState) || isIn(memory, doneState)
  return { state, from: startedState, ...(hasResult ? {} : { only: [startedState, state] }) }
}

/**
 * The states from which a ticket may be moved; undefined allows any. A person may have moved the ticket since the last
 * poll: when work on it starts it is not moved from any other state but polled again.
 */
export function allowedOrigins(
  { state, from, only }: RememberedMove,
  { startedState, reviewState, eligible }: Pick<ServiceConfig['tracker'], 'eligible'> & StateSettings,
): readonly string[] | undefined {
  if (only !== undefined) return only
  if (from === undefined || startedState === undefined || !isSameName(state, startedState)) return undefined
  return [from, startedState, ...(reviewState === undefined ? [] : [reviewState]), ...eligible.states]
}

/** The sentence in the log of a completed run whose ticket is released. */
export const unchangedRunText = (identifier: string, state: string): string =>
  `the run changed nothing, so ${printable(identifier)} goes to ${printable(state)} without a review`

/** The comment on the ticket of such a run. */
export const unchangedRunComment = (runId: string): string =>
  `switchyard: the run ${runId} changed nothing, so there is no pull request to review. ` +
  `\`switchyard logs ${runId}\` on its host shows what its agent did and said.`

const isIn = ({ state }: TicketObservation, name: string | undefined): boolean =>
  name !== undefined && isSameName(name, state)

// ---- whether a run ends because its ticket has left ----------------------------------------------------------------

interface RunOfTicket {
  readonly run: Pick<Run, 'status'>
  readonly job: 'run' | 'follow-up'
  /** Set while its work is done and the code host has yet to confirm the pull request. */
  readonly adoption: object | null
  /** Set while its finished work waits to be published. */
  readonly publishing: object | null
}

/** Whether a run is cancelled when its ticket is taken out of the eligible ones. */
export function endsWithTicket(
  { run, job, adoption, publishing }: RunOfTicket,
  { whenTicketLeaves }: Pick<ServiceConfig['tracker'], 'whenTicketLeaves'>,
): boolean {
  if (job !== 'run' || adoption !== null) return false
  const isBegun = run.status !== 'queued' || publishing !== null
  return !isBegun || whenTicketLeaves === 'stop'
}

export const ticketLeftReason = ({ identifier, state }: Ticket): string =>
  `${identifier} was taken out of the eligible tickets (it is in ${state})`

// ---- whether a ticket becomes a run by itself --------------------------------------------------------------------

interface RunTriggerFacts {
  readonly eligible: boolean
  readonly memory: TicketObservation
  /** The latest end of all runs of the ticket; failed and cancelled runs count too. */
  readonly lastFinishedAt?: string | undefined
  readonly hasActiveRun: boolean
}

/** A ticket becomes a run by itself when it is eligible and no run has ended since it entered its state. */
export function shouldStartRun({ eligible, memory, lastFinishedAt, hasActiveRun }: RunTriggerFacts): boolean {
  if (!eligible || hasActiveRun) return false
  return lastFinishedAt === undefined || lastFinishedAt < memory.since
}

/**
 * The last observed state of a ticket, since when, and whether the ticket was eligible before the host moved it.
 *
 * Trackers do not report since when, so the host remembers it: a change counts from the moment the host sees it, on the
 * host's clock, which also measures run ends. A ticket missing from a listing has not changed: a file that is being
 * replaced is absent for a moment.
 */
export type TicketObservation = {
  readonly state: string
  readonly since: string
  readonly eligible?: true
  /** The state that the host set. A person may set the same state later, which counts as a change. */
  readonly put?: string
  /** The state from which an unfinished run took the ticket; absent once somebody else has moved the ticket. */
  readonly origin?: string
}

/**
 * A ticket seen for the first time counts as always having been in its state, so on a fresh host with old runs finished
 * work is not repeated. Returns the same object when nothing has changed.
 */
export function observeTicket(
  known: TicketObservation | undefined,
  ticket: Ticket,
  nowIso: string,
): TicketObservation {
  if (known === undefined) return { state: ticket.state, since: earlier(ticket.createdAt, nowIso) }
  if (isSameName(known.state, ticket.state)) return known
  const { put: _, origin: __, ...rest } = known
  return { ...rest, state: ticket.state, since: nowIso }
}

/**
 * A change that the host sees now happened after every run that has ended, even if the wall clock was set back since.
 */
export function observedAfter(
  memory: TicketObservation,
  lastFinishedAt: string | undefined,
): TicketObservation {
  if (lastFinishedAt === undefined || lastFinishedAt < memory.since) return memory
  return { ...memory, since: new Date(Date.parse(lastFinishedAt) + 1).toISOString() }
}

/**
 * A run that has just ended ended after the last observed change. Returns the same object when the times agree
 * already.
 */
export function observedBefore(memory: TicketObservation, finishedAt: string): TicketObservation {
  return memory.since <= finishedAt ? memory : { ...memory, since: finishedAt }
}

/** Returns the same object when the value is unchanged. */
export function observeEligibility(memory: TicketObservation, eligible: boolean): TicketObservation {
  if ((memory.eligible === true) === eligible) return memory
  const { eligible: _, ...rest } = memory
  return eligible ? { ...rest, eligible } : rest
}

/**
 * Records that the host moves, or has moved, the ticket; such a move is no new change. Otherwise a run's end would
 * move its ticket to the review state, and where that state is eligible too, the ticket would run again and again.
 */
export function recordHostMove(memory: TicketObservation, state: string): TicketObservation {
  return isSameName(memory.state, state) ? memory : { ...memory, state }
}

/** Returns the same object when the value is unchanged. */
export function recordHostState(memory: TicketObservation, state: string): TicketObservation {
  return memory.put === state ? memory : { ...memory, put: state }
}

function earlier(a: string, b: string): string {
  return a < b ? a : b
}

/**
 * Decides where a run's ticket goes: when work starts, when there is something to review, when it is merged, and when
 * the run leaves nothing behind.
 *
 * A run *holds* its ticket from the queue to its end if there is a state from which or into which it may be released.
 * The hold remembers the state from which the run took the ticket, and ends as soon as somebody else moves the ticket; a
 * run that starts again takes it anew. Only a held ticket is released.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Run } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { extend } from '../extend.ts'
import { isSameName } from './names.ts'
import type { TicketObservation } from './run-trigger.ts'

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
  // A move that is not confirmed may not have been made.
  return { state: releasedState ?? origin, from: isPut ? [memory.state] : [memory.state, origin] }
}

/** The sentence in the log of a completed run whose ticket is released. */
export const unchangedRunText = (identifier: string, state: string): string =>
  `the run changed nothing, so ${printable(identifier)} goes to ${printable(state)} without a review`

const isIn = ({ state }: TicketObservation, name: string | undefined): boolean =>
  name !== undefined && isSameName(name, state)

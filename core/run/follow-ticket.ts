/**
 * Decides which runs follow the edits of their tickets, and applies an edit to a run's record.
 *
 * Nothing that people see depends on the ticket of a waiting run, so its next attempt works on the ticket as they see it.
 * A run with a lease keeps the ticket that its job names. A pull request stays in its repository and on its branch, so a
 * follow-up, and a retry of a run that has a pull request, keep the ticket that led to it.
 */
import type { Run, Ticket } from '../../protocol/run.ts'
import { isSameTicket } from '../tickets/compare-listings.ts'

export interface TicketFollower {
  readonly run: Run
  readonly job: 'run' | 'follow-up'
  /** Id of the current lease. */
  readonly lease: string | null
  /** Set while its finished work waits to be published where it belongs. */
  readonly publishing: object | null
}

export const mayFollowTicket = ({ run, job, lease, publishing }: TicketFollower): boolean =>
  job === 'run' && run.status === 'queued' && lease === null && publishing === null && run.prUrl === undefined

/**
 * Returns the same object when the ticket reads as before, also when a comment has made it younger. The state stays that of the run's creation: the host moves
 * tickets itself, and a release needs the state in which the run found its ticket (`run-progress.ts`).
 */
export function followTicket(run: Run, listed: Ticket): Run {
  const { state, updatedAt } = run.ticket
  if (isSameTicket(run.ticket, { ...listed, state, updatedAt })) return run
  return { ...run, ticket: { ...listed, state } }
}

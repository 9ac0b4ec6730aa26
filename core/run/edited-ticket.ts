/**
 * Rules of an edited ticket: which runs follow its edits, and the wait of a run whose ticket was changed after it was
 * labelled, by somebody who may not write. Such a run waits until somebody who may write sets the label again, or a
 * person starts it.
 */
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket, TicketEdit } from '../../protocol/run.ts'
import { toSentence } from '../printable-output.ts'
import { isSameTicket } from '../tickets/compare-listings.ts'
import { ticketInCommand } from './name-in-commands.ts'
import { withCure } from './queue-reasons.ts'

/** The edit that nobody has read who may start the run. */
export function unreadEdit({
  ticket,
  approvedEdit = '',
}: Pick<Run, 'ticket' | 'approvedEdit'>): TicketEdit | undefined {
  return ticket.edited === undefined || ticket.edited.at <= approvedEdit ? undefined : ticket.edited
}

export const startCommand = (ticket: Ticket): string => `switchyard start ${ticketInCommand(ticket)}`

export const editedReason = (ticket: Ticket, { by }: TicketEdit): string =>
  toSentence(
    withCure(
      `${ticket.identifier} was edited by ${by} after it was labelled`,
      `read it, then set the label again, or: ${startCommand(ticket)}`,
    ),
    TEXT_CHARS_MAX,
  )

/** A person wants the run with the words that the tracker shows now. */
export const approveEdit = (run: Run, { edited }: Pick<Ticket, 'edited'>): Run =>
  edited === undefined ? run : { ...run, approvedEdit: edited.at }

interface TicketFollower {
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
 * Returns the run with the ticket as people see it now: what they see of a waiting run does not depend on the ticket in
 * its record. A run with a lease keeps the ticket that its job names. A pull request stays in its repository and on its
 * branch, so a follow-up, and a retry of a run that has a pull request, keep the ticket that led to it.
 *
 * Returns the same object when the ticket reads as before, also when a comment has made it younger. The state stays
 * that of the run's creation: the host moves tickets itself, and a release needs the state in which the run found its
 * ticket (`run-progress.ts`).
 */
export function followTicket(run: Run, listed: Ticket): Run {
  const { state, updatedAt } = run.ticket
  if (isSameTicket(run.ticket, { ...listed, state, updatedAt })) return run
  return { ...run, ticket: { ...listed, state } }
}

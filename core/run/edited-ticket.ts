/**
 * Rules of a ticket whose words somebody who may not write has changed after it was labelled: its run waits until
 * somebody who may write sets the label again, or a person starts it.
 */
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket, TicketEdit } from '../../protocol/run.ts'
import { toSentence } from '../printable-output.ts'
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

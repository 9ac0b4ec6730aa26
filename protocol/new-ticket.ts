/** The request that creates a ticket in the tracker, and its answer. */
import Type, { type Static } from 'typebox'
import {
  LABELS_MAX,
  NAME_CHARS_MAX,
  PROSE_CHARS_MAX,
  REPO_KEY_CHARS_MAX,
  TICKET_TITLE_CHARS_MAX,
} from './limits.ts'
import { Run, Ticket } from './run.ts'
import { boundedList, nonEmptyText, patternText, record, text } from './schema-helpers.ts'

/** Visible text without control characters, line separators and halves of a surrogate pair. */
const LINE = '^(?=.*\\S)[^\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}]+$'
const LINE_EXPECTS = 'one line of visible text, without control characters'

export const NewTicketRequest = record('NewTicketRequest', {
  title: patternText(LINE, LINE_EXPECTS, TICKET_TITLE_CHARS_MAX),
  description: Type.Optional(text(PROSE_CHARS_MAX)),
  repo: Type.Optional(nonEmptyText(REPO_KEY_CHARS_MAX, 'The key of the repository mapping under repos.')),
  priority: Type.Optional(Ticket.properties.priority),
  labels: Type.Optional(boundedList(patternText(LINE, LINE_EXPECTS, NAME_CHARS_MAX), LABELS_MAX)),
  start: Type.Optional(
    Type.Boolean({
      description:
        'True (the default) puts the ticket into the first eligible state and queues its run at once; false puts it where it is not eligible.',
    }),
  ),
})
export type NewTicketRequest = Static<typeof NewTicketRequest>

/** `run` is absent when the ticket was not to be started. */
export const NewTicketResponse = record('NewTicketResponse', { ticket: Ticket, run: Type.Optional(Run) })
export type NewTicketResponse = Static<typeof NewTicketResponse>

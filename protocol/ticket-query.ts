/** The parameters of a list of eligible tickets, of their runs and of their summary, and what these answer. */
import Type, { type Static } from 'typebox'
import { LIST_LIMIT_MAX, NAME_CHARS_MAX, TICKET_SUMMARY_NAMES_MAX } from './limits.ts'
import { RunStatus, Ticket } from './run.ts'
import {
  boundedList,
  Count,
  ForeignId,
  Id,
  nonEmptyText,
  record,
  stringEnum,
  text,
} from './schema-helpers.ts'
import { TICKET_SITUATIONS, TICKET_SORTS } from './ticket-filter.ts'

const { priority } = Ticket.properties

/** A description is longer than everything else in a row of a list. */
export const OmittedField = Type.Optional(
  stringEnum(['description'], 'The descriptions of the tickets are left empty.'),
)

const filterFields = {
  q: Type.Optional(nonEmptyText(256, 'Words, each of which the id, the identifier or the title has.')),
  run: Type.Optional(
    stringEnum(
      TICKET_SITUATIONS,
      'What the unfinished run does: `progress`, `waits`, `blocked` by another ticket; `none`.',
    ),
  ),
  state: Type.Optional(nonEmptyText(NAME_CHARS_MAX, 'A state of the tracker.')),
  label: Type.Optional(nonEmptyText(NAME_CHARS_MAX)),
  repo: Type.Optional(nonEmptyText(256, 'The key of a repository.')),
  priority: Type.Optional(priority),
}

export const TicketListQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX })),
  skip: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The tickets of earlier pages.',
    }),
  ),
  sort: Type.Optional(stringEnum(TICKET_SORTS, '`queue` unless given: as the tickets will be taken.')),
  omit: OmittedField,
  ...filterFields,
})
export type TicketListQuery = Static<typeof TicketListQuery>

export const TicketSummaryQuery = Type.Object(filterFields)
export type TicketSummaryQuery = Static<typeof TicketSummaryQuery>

/** The unfinished run of a ticket, or its newest. */
export const TicketRun = record('TicketRun', {
  ticketId: ForeignId,
  runId: Id,
  status: RunStatus,
  unchanged: Type.Optional(
    Type.Literal(true, { description: 'The run is completed and left nothing to review.' }),
  ),
})
export type TicketRun = Static<typeof TicketRun>

const Names = boundedList(text(NAME_CHARS_MAX), TICKET_SUMMARY_NAMES_MAX)

export const TicketSummary = record('TicketSummary', {
  count: Count,
  /** All eligible tickets, also those that the query leaves out. */
  total: Count,
  /** Counts by what the unfinished runs do, of the tickets that the rest of the query finds. */
  runs: record('TicketSituations', { progress: Count, waits: Count, blocked: Count, none: Count }),
  /** The values are those of all eligible tickets. */
  states: Names,
  labels: Names,
  repos: Names,
  priorities: boundedList(priority, 5),
})
export type TicketSummary = Static<typeof TicketSummary>

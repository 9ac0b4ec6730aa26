/** The parameters of a list of runs and of its summary, and the summary itself. */
import Type, { type Static } from 'typebox'
import { FINGERPRINT_CHARS_MAX } from './fingerprint.ts'
import { LIST_LIMIT_MAX, NAME_CHARS_MAX, RUN_SUMMARY_NAMES_MAX, RUNS_SKIPPED_MAX } from './limits.ts'
import { PullState, RunStatus } from './run.ts'
import { RUN_SORTS } from './run-filter.ts'
import {
  boundedList,
  Count,
  Instant,
  nonEmptyText,
  record,
  stringEnum,
  Text,
  text,
} from './schema-helpers.ts'
import { OmittedField } from './ticket-query.ts'

const filterFields = {
  status: Type.Optional(boundedList(RunStatus, 16)),
  ticket: Type.Optional(nonEmptyText(256)),
  q: Type.Optional(nonEmptyText(256, 'Words, each of which the id, the ticket or the error has.')),
  repo: Type.Optional(nonEmptyText(256, 'The key of a repository.')),
  agent: Type.Optional(nonEmptyText(256, 'The provider that works on the run, by its name on the wire.')),
  worker: Type.Optional(nonEmptyText(256, 'The name of a worker.')),
  failure: Type.Optional(nonEmptyText(FINGERPRINT_CHARS_MAX, 'A failure of the summary.')),
  since: Type.Optional(Instant),
  until: Type.Optional(Instant),
  endedSince: Type.Optional(Instant),
  prState: Type.Optional(boundedList(PullState, 4)),
}

export const RunListQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX })),
  before: Type.Optional(nonEmptyText(256, 'Only runs older than this one.')),
  ...filterFields,
  sort: Type.Optional(stringEnum(RUN_SORTS, '`newest` unless given; any other needs a limit.')),
  skip: Type.Optional(
    Type.Integer({ minimum: 0, maximum: RUNS_SKIPPED_MAX, description: 'The runs of earlier sorted pages.' }),
  ),
  omit: OmittedField,
})
export type RunListQuery = Static<typeof RunListQuery>

export const RunSummaryQuery = Type.Object(filterFields)
export type RunSummaryQuery = Static<typeof RunSummaryQuery>

const Names = boundedList(text(NAME_CHARS_MAX), RUN_SUMMARY_NAMES_MAX)

export const RunSummary = record('RunSummary', {
  count: Count,
  /** Failures that more than one of the runs has, the most frequent first. */
  failures: boundedList(
    record('EqualFailures', { failure: text(FINGERPRINT_CHARS_MAX), error: Text, count: Count }),
    RUN_SUMMARY_NAMES_MAX,
  ),
  /** These names are those of all runs, also of runs that the query leaves out. */
  repos: Names,
  agents: Names,
  workers: Names,
})
export type RunSummary = Static<typeof RunSummary>

/** The sandbox of a run: as its worker reports it, and as the host stores it. */
import Type, { type Static } from 'typebox'
import { NAME_CHARS_MAX } from './limits.ts'
import { addedKey, ForeignId, Id, Instant, Name, record, text } from './schema-helpers.ts'

/** Stored snapshots of executions depend on the title. */
export const ReportedSandbox = record('RunSandbox', {
  provider: Type.Optional(Name),
  id: Type.Optional(ForeignId),
  retainedUntil: Type.Optional(Instant),
  workerId: Type.Optional(Id),
  unpublished: addedKey(
    Type.Boolean({ description: 'It holds finished work that is committed and not published.' }),
  ),
})
export type ReportedSandbox = Static<typeof ReportedSandbox>

export const RunSandbox = record('RunSandbox', {
  ...ReportedSandbox.properties,
  workerName: addedKey(text(NAME_CHARS_MAX, 'What the worker was called when it accepted the run.')),
})
export type RunSandbox = Static<typeof RunSandbox>

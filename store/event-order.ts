/**
 * What a chunk of events must be before any store takes it: of a run, whole lines, where the run's last one ended.
 *
 * Indexes of a run's events count up from 0 without a hole, and every later promise about a log rests on that.
 */
import type { Write } from '../core/ports.ts'

export type EventsWrite = Extract<Write, { readonly table: 'events' }>

/** Indexes have 32 bits in keys. */
const INDEX_MAX = 0xffff_ffff
const NEWLINE = 10
/** A run id is made by us and safe as a name of a folder; anything else is a bug, and reaches no disk. */
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

export function isRunId(runId: string): boolean {
  return RUN_ID.test(runId)
}

export function requireRunId(runId: string): void {
  if (!isRunId(runId)) throw new TypeError(`not a run id: ${JSON.stringify(runId.slice(0, 80))}`)
}

/** Throws when a chunk is not what it says of itself. `bytes` is its text. */
export function requireWholeLines({ runId, first, count }: EventsWrite, bytes: Uint8Array): void {
  requireRunId(runId)
  if (!Number.isSafeInteger(first) || first < 0 || first + count > INDEX_MAX)
    throw new RangeError(`events of ${runId} cannot begin at ${first}`)
  if (count < 1 || bytes.at(-1) !== NEWLINE || countLines(bytes) !== count)
    throw new RangeError(`a chunk of events of ${runId} is not the ${count} whole lines it is said to be`)
}

/** Throws when a chunk does not begin where the one before it ended. */
export function requireNextIndex(runId: string, first: number, next: number): void {
  if (first === next) return
  throw new RangeError(`event ${first} of ${runId} came in the place of event ${next}`)
}

export function countLines(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}

/**
 * Checks chunks of events before any store accepts them: a valid run id, whole lines, and no gap after the run's last
 * event.
 *
 * The indexes of a run's events count up from 0 without a gap; every other guarantee about event logs depends on
 * that.
 */
import type { Write } from '../core/ports/store.ts'
import type { RunEvent } from '../protocol/run.ts'

export type EventsWrite = Extract<Write, { readonly table: 'events' }>

/** Keys encode an index in 32 bits. */
const INDEX_MAX = 0xffff_ffff
const NEWLINE = 10
/**
 * This service creates run ids, and they are safe as folder names. Any other id is a bug and never reaches the disk.
 */
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

export function isRunId(runId: string): boolean {
  return RUN_ID.test(runId)
}

export function requireRunId(runId: string): void {
  if (!isRunId(runId)) throw new TypeError(`not a run id: ${JSON.stringify(runId.slice(0, 80))}`)
}

/** Throws when a chunk does not match its description. `bytes` is the chunk's text. */
export function requireWholeLines({ runId, first, count }: EventsWrite, bytes: Uint8Array): void {
  requireRunId(runId)
  if (!Number.isSafeInteger(first) || first < 0 || first + count > INDEX_MAX)
    throw new RangeError(`events of ${runId} cannot start at index ${first}`)
  if (count < 1 || bytes.at(-1) !== NEWLINE || countLines(bytes) !== count)
    throw new RangeError(`a chunk of events of ${runId} does not consist of ${count} whole lines`)
}

/** Throws when a chunk does not start directly after the previous one. */
export function requireNextIndex(runId: string, first: number, next: number): void {
  if (first === next) return
  throw new RangeError(`event ${first} of ${runId} was written where event ${next} is expected`)
}

export function countLines(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}

/** Events that were acknowledged and cannot be read. */
export interface LostEvents {
  readonly runId: string
  /** The first and the last index. */
  readonly from: number
  readonly to: number
}

/** Makes the system record in the place of lost events. Its index is that of the last one: later events keep theirs. */
export function lossLine({ runId, from, to }: LostEvents, nowMs: number, why: string): string {
  const which = from === to ? `event ${from} of this log is` : `events ${from} to ${to} of this log are`
  const event: RunEvent = {
    runId,
    index: to,
    at: new Date(nowMs).toISOString(),
    type: 'log',
    stream: 'system',
    text: `${which} ${why}`,
  }
  return JSON.stringify(event)
}

/**
 * Runs in LMDB: the records by id, and two indexes (`run-index.ts`) that change in the same transaction.
 *
 * Ids are ordered by time, so the tables are too, and a list walks from the newest run backwards up to its limit. The
 * counts are stored in one small record, so counting never walks a table. A list leaves damaged records out; they are in
 * the list of damage.
 */
import { readOr } from '../../core/damage.ts'
import type { RunQuery, RunRecords } from '../../core/ports.ts'
import { RUN_STATUSES, type Run, type RunStatus } from '../../protocol/run.ts'
import type { RowPut } from './encode-writes.ts'
import { readRun, STATUS_CODE } from './run-codec.ts'
import {
  EMPTY_VALUE,
  type RunCounts,
  ticketKey,
  UNFINISHED_CODES,
  UNFINISHED_STATUSES,
  UnfinishedRuns,
} from './run-index.ts'
import { isKey, type Table } from './table.ts'
import type { Tables } from './tables.ts'

/** Sorts above every id, because ids are ASCII. */
const LAST = '\uffff'
/** Until format 3 each of these statuses had a code of its own: preparing, running, finalizing. */
const OLD_CODES = ['p', 'r', 'z'] as const

export class LmdbRunRecords implements RunRecords {
  readonly unfinished = new UnfinishedRuns()
  readonly #tables: Tables
  /** The counts after the last committed transaction. */
  counts: RunCounts

  constructor(tables: Tables) {
    this.#tables = tables
    // Damaged counts are made again when the indexes are repaired.
    const text = readOr(
      () => tables.meta.getText('counts'),
      () => undefined,
    )
    this.counts = { ...zeroCounts(), ...(text === undefined ? {} : (JSON.parse(text) as Partial<RunCounts>)) }
  }

  get(id: string): Run | undefined {
    return isKey(id) ? readRun(this.#tables, id) : undefined
  }

  count(status?: RunStatus): number {
    if (status !== undefined) return this.counts[status]
    return RUN_STATUSES.reduce((sum, each) => sum + this.counts[each], 0)
  }

  list(query: RunQuery): Run[] {
    const limit = query.limit ?? Number.POSITIVE_INFINITY
    const found: Run[] = []
    if (limit <= 0 || query.status?.length === 0) return found
    for (const id of this.#ids(query)) {
      const run = this.#readUndamaged(id)
      // The index of a ticket, and that of runs with a worker, hold runs of other statuses too.
      if (run === undefined || (query.status !== undefined && !query.status.includes(run.status))) continue
      if (found.push(run) >= limit) break
    }
    return found
  }

  hasDamaged(ticket: string): boolean {
    if (this.#tables.damage.isEmpty) return false
    const ids = [...backwards(this.#tables.byTicket, ticketKey(ticket), undefined)]
    return ids.some((id) => this.#readUndamaged(id) === undefined)
  }

  #readUndamaged(id: string): Run | undefined {
    return readOr(
      () => readRun(this.#tables, id),
      () => undefined,
    )
  }

  /** Returns the puts that bring an index by status of an earlier format to the present one. */
  statusIndexMigration(): RowPut[] {
    const table = this.#tables.byStatus
    return OLD_CODES.flatMap((code) =>
      [...backwards(table, code, undefined)].flatMap((id): RowPut[] => [
        { to: 'row', table: table.name, key: code + id, bytes: null },
        { to: 'row', table: table.name, key: STATUS_CODE.running + id, bytes: EMPTY_VALUE },
      ]),
    )
  }

  /** Whether the indexes or the counts disagree with the runs, or are damaged. Reads the unfinished runs' ids. */
  isIndexSuspect(): boolean {
    const { byStatus, byTicket, damage } = this.#tables
    const unfinished = UNFINISHED_STATUSES.reduce((sum, status) => sum + this.counts[status], 0)
    return (
      byStatus.count() !== this.count() ||
      unfinishedRunIds(this.#tables).length !== unfinished ||
      damage
        .all()
        .some(({ id }) => id.startsWith(`row ${byStatus.name} `) || id.startsWith(`row ${byTicket.name} `))
    )
  }

  /** Returns ids, newest first, from the most selective index. */
  #ids({ ticket, status, before, limit }: RunQuery): Iterable<string> {
    if (ticket !== undefined) return backwards(this.#tables.byTicket, ticketKey(ticket), before, limit)
    if (status === undefined) return backwards(this.#tables.runs, '', before, limit)
    return mergeNewestFirst(
      [...new Set(status.map((each) => STATUS_CODE[each]))].map((code) =>
        backwards(this.#tables.byStatus, code, before, limit),
      ),
    )
  }
}

export function zeroCounts(): RunCounts {
  return { queued: 0, preparing: 0, running: 0, finalizing: 0, completed: 0, failed: 0, cancelled: 0 }
}

/** Returns the ids of all unfinished runs, oldest first. */
export function unfinishedRunIds(tables: Tables): string[] {
  return UNFINISHED_CODES.flatMap((code) => [...backwards(tables.byStatus, code, undefined)]).sort()
}

/**
 * Yields the ids with a prefix, newest first, one page at a time, so that a short list reads little.
 *
 * @param first how many are asked for in most cases
 */
export function* backwards(
  table: Table,
  prefix: string,
  before: string | undefined,
  first = PAGE_IDS,
): Generator<string> {
  let start = prefix + (before ?? LAST)
  let page = Math.min(first, PAGE_IDS)
  for (;;) {
    const end = prefix === '' ? {} : { end: prefix }
    const keys = [...table.getKeys({ start, ...end, reverse: true, exclusiveStart: true, limit: page })]
    for (const key of keys) yield key.slice(prefix.length)
    const last = keys.at(-1)
    if (last === undefined || keys.length < page) return
    start = last
    page = PAGE_IDS
  }
}
const PAGE_IDS = 512

/** Merges iterators that each yield ids newest first. */
function* mergeNewestFirst(walks: readonly Generator<string>[]): Generator<string> {
  const fronts = walks.map((walk) => ({ walk, id: nextOf(walk) }))
  for (;;) {
    const newest = fronts.reduce((a, b) => ((b.id ?? '') > (a.id ?? '') ? b : a))
    if (newest.id === undefined) return
    yield newest.id
    newest.id = nextOf(newest.walk)
  }
}

function nextOf(walk: Generator<string>): string | undefined {
  const { done, value } = walk.next()
  return done ? undefined : value
}

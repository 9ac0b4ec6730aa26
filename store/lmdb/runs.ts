/**
 * Runs in LMDB: the records by id, and two indexes (`run-index.ts`) that change in the same transaction.
 *
 * Ids are ordered by time, so the tables are too, and a list walks from the newest run backwards up to its limit. The
 * counts are stored in one small record, so counting never walks a table.
 */
import type { RunQuery, RunRecords } from '../../core/ports.ts'
import { RUN_STATUSES, type Run, type RunStatus } from '../../protocol/run.ts'
import type { StatusIndexPut } from './encode-writes.ts'
import { readRun } from './run-codec.ts'
import {
  EMPTY_VALUE,
  type RunCounts,
  STATUS_CODE,
  ticketKey,
  UNFINISHED_CODES,
  UnfinishedRuns,
} from './run-index.ts'
import { isKey, type Table, type Tables } from './tables.ts'

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
    const text = tables.meta.get('counts')
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
      const run = readRun(this.#tables, id)
      // The index of a ticket, and that of runs with a worker, hold runs of other statuses too.
      if (run === undefined || (query.status !== undefined && !query.status.includes(run.status))) continue
      if (found.push(run) >= limit) break
    }
    return found
  }

  /** Returns the puts that bring an index by status of an earlier format to the present one. */
  statusIndexMigration(): StatusIndexPut[] {
    return OLD_CODES.flatMap((code) =>
      [...backwards(this.#tables.byStatus, code, undefined)].flatMap((id): StatusIndexPut[] => [
        { to: 'status-index', key: code + id, bytes: null },
        { to: 'status-index', key: STATUS_CODE.running + id, bytes: EMPTY_VALUE },
      ]),
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
function* backwards(
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

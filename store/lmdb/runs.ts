/**
 * Runs in LMDB: the records by id, and two indexes that change in the same transaction.
 *
 * Ids are ordered by time, so the tables are too, and a list walks from the newest run backwards up to its limit. The
 * old index entries of a run follow from the record that is about to be replaced; `RunIndexChanges` makes commits of
 * one batch see each other. The counts are stored in one small record, so counting never walks a table.
 */
import { createHash } from 'node:crypto'
import type { RunQuery, RunRecords } from '../../core/ports.ts'
import { RUN_STATUSES, type Run, type RunStatus } from '../../protocol/run.ts'
import type { StatusIndexPut } from './encode-writes.ts'
import { damaged, readRun } from './run-codec.ts'
import { isKey, type Table, type Tables } from './tables.ts'

/** Sorts above every id, because ids are ASCII. */
const LAST = '\uffff'
/** LMDB needs a value, but an index entry has none. */
const EMPTY_VALUE = Buffer.from([0])
/** Runs with a worker share a code: they are few, and the index need not change while a run progresses. */
const STATUS_CODE: Readonly<Record<RunStatus, string>> = {
  queued: 'q',
  preparing: 'a',
  running: 'a',
  finalizing: 'a',
  completed: 'c',
  failed: 'f',
  cancelled: 'x',
}
/** Until format 3 each of these statuses had a code of its own: preparing, running, finalizing. */
const OLD_CODES = ['p', 'r', 'z'] as const

export type RunCounts = Record<RunStatus, number>

/** The fields by which a run is indexed. */
export interface RunIndexFields {
  readonly status: RunStatus
  readonly tickets: readonly string[]
}

export function indexFieldsOf(run: Run): RunIndexFields {
  const { id, identifier } = run.ticket
  return { status: run.status, tickets: id === identifier ? [id] : [id, identifier] }
}

export interface BatchWriter {
  write(table: Table, key: string, bytes: Uint8Array | null): void
}

/** The index changes of one batch, on top of the durable state. */
export class RunIndexChanges {
  readonly #tables: Tables
  readonly #writer: BatchWriter
  readonly #fields = new Map<string, RunIndexFields | null>()
  readonly #counts: RunCounts
  #countsChanged = false

  constructor(tables: Tables, counts: RunCounts, pen: BatchWriter) {
    this.#tables = tables
    this.#counts = { ...counts }
    this.#writer = pen
  }

  /** Returns the counts after the batch; undefined when they are unchanged. */
  counts(): RunCounts | undefined {
    return this.#countsChanged ? this.#counts : undefined
  }

  /** Loads the index fields of a run before its put. Throws StoreUnreadable. */
  load(id: string): void {
    if (!this.#fields.has(id)) this.#fields.set(id, durableIndexFields(this.#tables, id))
  }

  put(id: string, bytes: Uint8Array, fields: RunIndexFields): void {
    this.#writer.write(this.#tables.runs, id, bytes)
    this.#index(id, fields)
  }

  remove(id: string): void {
    this.#index(id, null)
    this.#writer.write(this.#tables.runs, id, null)
  }

  #index(id: string, fields: RunIndexFields | null): void {
    const before = this.#before(id)
    this.#fields.set(id, fields)
    if (before?.status !== fields?.status) this.#moveStatus(id, before, fields)
    this.#moveTickets(id, before?.tickets ?? [], fields?.tickets ?? [])
  }

  #before(id: string): RunIndexFields | null {
    this.load(id)
    return this.#fields.get(id) ?? null
  }

  #moveStatus(id: string, before: RunIndexFields | null, fields: RunIndexFields | null): void {
    this.#countsChanged = true
    if (before) this.#counts[before.status]--
    if (fields) this.#counts[fields.status]++
    const [from, to] = [before && STATUS_CODE[before.status], fields && STATUS_CODE[fields.status]]
    if (from === to) return
    if (from !== null) this.#writer.write(this.#tables.byStatus, from + id, null)
    if (to !== null) this.#writer.write(this.#tables.byStatus, to + id, EMPTY_VALUE)
  }

  #moveTickets(id: string, before: readonly string[], after: readonly string[]): void {
    const gone = before.filter((ticket) => !after.includes(ticket))
    const come = after.filter((ticket) => !before.includes(ticket))
    for (const ticket of gone) this.#writer.write(this.#tables.byTicket, ticketKey(ticket) + id, null)
    for (const ticket of come) this.#writer.write(this.#tables.byTicket, ticketKey(ticket) + id, EMPTY_VALUE)
  }
}

export class LmdbRunRecords implements RunRecords {
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
  #ids({ ticket, status, before }: RunQuery): Iterable<string> {
    if (ticket !== undefined) return backwards(this.#tables.byTicket, ticketKey(ticket), before)
    if (status === undefined) return backwards(this.#tables.runs, '', before)
    return mergeNewestFirst(
      [...new Set(status.map((each) => STATUS_CODE[each]))].map((code) =>
        backwards(this.#tables.byStatus, code, before),
      ),
    )
  }
}

export function zeroCounts(): RunCounts {
  return { queued: 0, preparing: 0, running: 0, finalizing: 0, completed: 0, failed: 0, cancelled: 0 }
}

/** Index fields become keys and counters, so a readable record that is no run must be rejected here. */
function durableIndexFields(tables: Tables, id: string): RunIndexFields | null {
  const run: Partial<Run> | undefined = readRun(tables, id)
  if (run === undefined) return null
  const { status, ticket } = run
  const isWhole =
    status !== undefined &&
    Object.hasOwn(STATUS_CODE, status) &&
    typeof ticket?.id === 'string' &&
    typeof ticket.identifier === 'string'
  if (!isWhole) throw damaged(id)
  return indexFieldsOf(run as Run)
}

/** Yields the ids with a prefix, newest first, one page at a time, so that a short list reads little. */
function* backwards(table: Table, prefix: string, before: string | undefined): Generator<string> {
  let start = prefix + (before ?? LAST)
  let page = FIRST_PAGE_IDS
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
const FIRST_PAGE_IDS = 32
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

/**
 * Ticket ids come from outside and may have any length and characters. Hashed keys have one length, so no key is a
 * prefix of another.
 */
function ticketKey(ticket: string): string {
  return createHash('sha256').update(ticket).digest('base64url').slice(0, 22)
}

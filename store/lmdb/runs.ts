/**
 * Runs in LMDB: the record by id, and two indexes that change in the same transaction.
 *
 * Ids are time ordered, so the tables are too, and a list is a walk from the newest backwards that stops at its
 * limit. What a run was indexed under is read from the record that is about to be replaced; commits of one batch see
 * each other through `Drafts`. Counts are kept in one small record: counting never walks.
 */
import { createHash } from 'node:crypto'
import type { RunQuery, RunRecords } from '../../core/ports.ts'
import { RUN_STATUSES, type Run, type RunStatus } from '../../protocol/run.ts'
import { StoreUnreadable } from '../errors.ts'
import { isKey, type Table, type Tables } from './tables.ts'

/** The layout of a stored run. One function a version lifts an older one. */
const RUN_VERSION = 1
const MIGRATIONS: Readonly<Record<number, (run: unknown) => unknown>> = {}

/** Above every id: ids are ASCII. */
const LAST = '\uffff'
/** LMDB wants a value, an index has none. */
const EMPTY_VALUE = Buffer.from([0])
const STATUS_CODE: Readonly<Record<RunStatus, string>> = {
  queued: 'q',
  preparing: 'p',
  running: 'r',
  finalizing: 'z',
  completed: 'c',
  failed: 'f',
  cancelled: 'x',
}

export type RunCounts = Record<RunStatus, number>

/** What the indexes need to know of a run. */
export interface RunIndexFields {
  readonly status: RunStatus
  readonly tickets: readonly string[]
}

export function indexFieldsOf(run: Run): RunIndexFields {
  const { id, identifier } = run.ticket
  return { status: run.status, tickets: id === identifier ? [id] : [id, identifier] }
}

export const toStoredRun = (run: Run): readonly [number, Run] => [RUN_VERSION, run]

export interface BatchWriter {
  write(table: Table, key: string, bytes: Uint8Array | null): void
}

/** The index changes of one batch, on top of what is durable. */
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

  /** Counts after the batch, when they differ from those before. */
  counts(): RunCounts | undefined {
    return this.#countsChanged ? this.#counts : undefined
  }

  /** Reads what a run is indexed under, ahead of its put. Throws StoreUnreadable. */
  load(id: string): void {
    if (!this.#fields.has(id)) this.#fields.set(id, durableIndexFields(this.#tables, id))
  }

  put(id: string, bytes: Uint8Array, head: RunIndexFields): void {
    this.#writer.write(this.#tables.runs, id, bytes)
    this.#index(id, head)
  }

  remove(id: string): void {
    this.#index(id, null)
    this.#writer.write(this.#tables.runs, id, null)
  }

  #index(id: string, head: RunIndexFields | null): void {
    const before = this.#before(id)
    this.#fields.set(id, head)
    if (before?.status !== head?.status) this.#moveStatus(id, before, head)
    this.#moveTickets(id, before?.tickets ?? [], head?.tickets ?? [])
  }

  #before(id: string): RunIndexFields | null {
    this.load(id)
    return this.#fields.get(id) ?? null
  }

  #moveStatus(id: string, before: RunIndexFields | null, head: RunIndexFields | null): void {
    this.#countsChanged = true
    if (before) {
      this.#counts[before.status]--
      this.#writer.write(this.#tables.byStatus, STATUS_CODE[before.status] + id, null)
    }
    if (head) {
      this.#counts[head.status]++
      this.#writer.write(this.#tables.byStatus, STATUS_CODE[head.status] + id, EMPTY_VALUE)
    }
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
  /** As of the last transaction that landed. */
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
      // With both filters the ticket's index leads, and the status is looked at here.
      if (run === undefined || (query.status !== undefined && !query.status.includes(run.status))) continue
      if (found.push(run) >= limit) break
    }
    return found
  }

  /** Newest first, from the index that narrows most. */
  #ids({ ticket, status, before }: RunQuery): Iterable<string> {
    if (ticket !== undefined) return backwards(this.#tables.byTicket, ticketKey(ticket), before)
    if (status === undefined) return backwards(this.#tables.runs, '', before)
    return mergeNewestFirst(
      [...new Set(status)].map((each) => backwards(this.#tables.byStatus, STATUS_CODE[each], before)),
    )
  }
}

export function zeroCounts(): RunCounts {
  return { queued: 0, preparing: 0, running: 0, finalizing: 0, completed: 0, failed: 0, cancelled: 0 }
}

/** The head names keys and counters, so here a record that can be read but is no run must not pass. */
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

function readRun(tables: Tables, id: string): Run | undefined {
  const bytes = tables.runs.get(id)
  return bytes === undefined ? undefined : migrateRun(id, decoded(tables, id, bytes))
}

function decoded(tables: Tables, id: string, bytes: Uint8Array): unknown {
  try {
    return tables.codec.decode(bytes)
  } catch (error) {
    throw damaged(id, error)
  }
}

function damaged(id: string, cause?: unknown): StoreUnreadable {
  return new StoreUnreadable(`the record of run ${id} is damaged; restore the state folder from a backup`, {
    cause,
  })
}

function migrateRun(id: string, record: unknown): Run {
  if (!Array.isArray(record) || typeof record[0] !== 'number') throw damaged(id)
  let [version, run]: unknown[] = record
  while (version !== RUN_VERSION) {
    const next = typeof version === 'number' ? MIGRATIONS[version] : undefined
    if (next === undefined || typeof version !== 'number') {
      throw new StoreUnreadable(
        `run ${id} has layout ${version}, this switchyard knows ${RUN_VERSION}; install the newer version`,
      )
    }
    run = next(run)
    version++
  }
  if (typeof run !== 'object' || run === null) throw damaged(id)
  // What was written had this type, and the lifts keep it.
  return run as Run
}

/** The ids behind one prefix, newest first, a page at a time, so that a short list reads little. */
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

/** Merges walks that are each newest first. */
function* mergeNewestFirst(walks: readonly Generator<string>[]): Generator<string> {
  const heads = walks.map((walk) => ({ walk, id: nextOf(walk) }))
  for (;;) {
    const newest = heads.reduce((a, b) => ((b.id ?? '') > (a.id ?? '') ? b : a))
    if (newest.id === undefined) return
    yield newest.id
    newest.id = nextOf(newest.walk)
  }
}

function nextOf(walk: Generator<string>): string | undefined {
  const { done, value } = walk.next()
  return done ? undefined : value
}

/** Tickets are named by someone else: any length, any characters. Their key has one length, so none hides in another. */
function ticketKey(ticket: string): string {
  return createHash('sha256').update(ticket).digest('base64url').slice(0, 22)
}

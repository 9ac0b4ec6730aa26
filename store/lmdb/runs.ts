/**
 * Runs in LMDB: the records by id, and two indexes (`run-index.ts`) that change in the same transaction.
 *
 * Ids are ordered by time, so the tables are too, and a list walks from the newest run backwards up to its limit. The
 * counts are stored in one small record, so counting never walks a table. A list leaves damaged records out; they are in
 * the list of damage.
 */
import { type DamagedRecord, readOr } from '../../core/damage.ts'
import type {
  ActorSnapshot,
  DamagedSnapshot,
  RunQuery,
  RunRecords,
  Snapshots,
} from '../../core/ports/store.ts'
import { RUN_STATUSES, type Run, type RunStatus } from '../../protocol/run.ts'
import type { Put, RowPut } from './encode-writes.ts'
import {
  durableIndexFields,
  EMPTY_VALUE,
  type RunCounts,
  type RunIndexFields,
  readRun,
  STATUS_CODE,
  STATUS_CODES,
  ticketKey,
  UNFINISHED_CODES,
  UNFINISHED_STATUSES,
  UnfinishedRuns,
} from './run-index.ts'
import { RUN_KIND, readActor } from './run-rows.ts'
import { isKey, type Table } from './table.ts'
import { SNAPSHOT_PREFIX } from './table-names.ts'
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

  damagedOf(ticket: string): readonly string[] {
    if (this.#tables.damage.isEmpty) return []
    const ids = [...backwards(this.#tables.byTicket, ticketKey(ticket), undefined)]
    return ids.filter((id) => this.#readUndamaged(id) === undefined)
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

// ---- repair --------------------------------------------------------------------------------------------------------

/** Runs, or entries, in one transaction, whose space is preallocated. */
const ROWS_PER_COMMIT = 500

/**
 * Makes the indexes and the counts of the runs again from their records, when they disagree. Returns the counts, which
 * are on disk then.
 *
 * Damaged entries go, and missing ones come. An entry of a run whose record is missing stays: it is what names the
 * run.
 */
export async function repairRunIndexes(
  tables: Tables,
  commit: (puts: readonly Put[]) => Promise<void>,
): Promise<RunCounts> {
  for (const table of [tables.byStatus, tables.byTicket])
    await commitAll(
      damagedKeys(table).map((key) => removal(table, key)),
      commit,
    )
  const counts = zeroCounts()
  for (const id of indexedOnly(tables)) counts[statusByIndex(tables, id)]++
  const puts: RowPut[] = []
  for (const id of backwards(tables.runs, '', undefined)) {
    const fields = readOr(
      () => durableIndexFields(tables, id),
      () => null,
    )
    counts[fields?.status ?? statusByIndex(tables, id)]++
    if (fields !== null) puts.push(...entriesToMend(tables, id, fields))
    if (puts.length >= ROWS_PER_COMMIT) await commit(puts.splice(0))
  }
  await commit([...puts, { to: 'meta', key: 'counts', text: JSON.stringify(counts) }])
  return counts
}

async function commitAll(
  puts: readonly Put[],
  commit: (puts: readonly Put[]) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < puts.length; at += ROWS_PER_COMMIT) await commit(puts.slice(at, at + ROWS_PER_COMMIT))
}

const damagedKeys = (table: Table): string[] =>
  [...table.getRange()].flatMap(({ key, value }) => (value === undefined ? [key] : []))

function entriesToMend(tables: Tables, id: string, { status, tickets }: RunIndexFields): RowPut[] {
  const { byStatus, byTicket } = tables
  const own = STATUS_CODE[status]
  const wrong = STATUS_CODES.filter((code) => code !== own && byStatus.doesExist(code + id))
  const missing = [
    ...(byStatus.doesExist(own + id) ? [] : [entry(byStatus, own + id)]),
    ...tickets
      .map((ticket) => ticketKey(ticket) + id)
      .flatMap((key) => (byTicket.doesExist(key) ? [] : [entry(byTicket, key)])),
  ]
  return [...wrong.map((code) => removal(byStatus, code + id)), ...missing]
}

const entry = ({ name }: Table, key: string): RowPut => ({ to: 'row', table: name, key, bytes: EMPTY_VALUE })
const removal = ({ name }: Table, key: string): RowPut => ({ to: 'row', table: name, key, bytes: null })

/** Runs of which only the index knows. */
function indexedOnly(tables: Tables): string[] {
  const ids = [...tables.byStatus.getKeys()].map((key) => key.slice(1))
  return ids.filter((id) => !tables.runs.doesExist(id))
}

/** The status of a run whose record cannot be read, as far as it is known. */
function statusByIndex(tables: Tables, id: string): RunStatus {
  const statuses = Object.entries(STATUS_CODE) as [RunStatus, string][]
  return statuses.find(([, code]) => tables.byStatus.doesExist(code + id))?.[0] ?? 'failed'
}

// ---- snapshots -----------------------------------------------------------------------------------------------------

/** Snapshots that are read at once, so that iterating a kind holds no transaction open while the caller works. */
const SNAPSHOTS_PER_PAGE = 256

type Listed = readonly [key: string, record: ActorSnapshot | DamagedSnapshot]

/**
 * Actor snapshots in LMDB, one table per kind; those of runs lie in the rows of the runs. This class only decodes; the
 * actor interprets its snapshot. A look-up of a damaged one throws, and a walk names it.
 */
export class LmdbSnapshots implements Snapshots {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  get(kind: string, key: string): ActorSnapshot | undefined {
    const bytes = isKey(key) ? this.#read(kind, key) : undefined
    return bytes === undefined ? undefined : this.#decode(kind, key, bytes)
  }

  #read(kind: string, key: string): Uint8Array | undefined {
    return kind === RUN_KIND ? readActor(this.#tables, key) : this.#tables.snapshotsOf(kind)?.get(key)
  }

  *all(kind: string): Generator<Listed> {
    if (kind === RUN_KIND) yield* this.#actorsOfRuns()
    else yield* this.#inTable(kind)
  }

  *#actorsOfRuns(): Generator<Listed> {
    for (const id of unfinishedRunIds(this.#tables)) {
      const actor = readOr<ActorSnapshot | DamagedSnapshot | undefined>(
        () => this.get(RUN_KIND, id),
        ({ message }) => ({ damaged: message }),
      )
      if (actor !== undefined) yield [id, actor]
    }
  }

  *#inTable(kind: string): Generator<Listed> {
    let after: string | undefined
    for (;;) {
      const from = after === undefined ? {} : { start: after, exclusiveStart: true }
      const page = [
        ...(this.#tables.snapshotsOf(kind)?.getRange({ ...from, limit: SNAPSHOTS_PER_PAGE }) ?? []),
      ]
      for (const { key, value } of page) yield [key, this.#decodeOrName(kind, key, value)]
      after = page.at(-1)?.key
      if (after === undefined || page.length < SNAPSHOTS_PER_PAGE) return
    }
  }

  /** Returns the puts that move the actors of runs out of their own table, where they were until format 4. */
  actorMigration(): readonly Put[] {
    const table = this.#tables.snapshotsOf(RUN_KIND)
    return [...(table?.getRange() ?? [])].flatMap(({ key, value }): Put[] =>
      value === undefined
        ? []
        : [
            { to: 'snapshot', kind: RUN_KIND, key, bytes: value },
            { to: 'row', table: SNAPSHOT_PREFIX + RUN_KIND, key, bytes: null },
          ],
    )
  }

  kinds(): readonly string[] {
    return this.#tables.kinds()
  }

  #decodeOrName(kind: string, key: string, bytes: Uint8Array | undefined): ActorSnapshot | DamagedSnapshot {
    const record = bytes === undefined ? undefined : this.#decoded(bytes)
    return record ?? { damaged: this.#note(kind, key).damage.message }
  }

  #decode(kind: string, key: string, bytes: Uint8Array): ActorSnapshot {
    const record = this.#decoded(bytes)
    if (record === undefined) throw this.#note(kind, key)
    return record
  }

  #note(kind: string, key: string): DamagedRecord {
    return this.#tables.damage.noteRow(SNAPSHOT_PREFIX + kind, key)
  }

  /** Returns undefined for bytes that are no snapshot. */
  #decoded(bytes: Uint8Array): ActorSnapshot | undefined {
    try {
      const record = this.#tables.codec.decode(bytes)
      return isRecord(record) ? record : undefined
    } catch {
      return undefined
    }
  }
}

function isRecord(value: unknown): value is ActorSnapshot {
  if (typeof value !== 'object' || value === null) return false
  return (
    'v' in value && typeof value.v === 'number' && 's' in value && typeof value.s === 'string' && 'c' in value
  )
}

/**
 * The two indexes of the runs in LMDB, by status and by ticket. They change in the transaction of the record.
 *
 * The old index entries of a run follow from the record that is about to be replaced; `RunIndexChanges` makes commits of
 * one batch see each other.
 */
import { createHash } from 'node:crypto'
import { DamagedRecord, isDamagedRecord } from '../../core/damage.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import { StoreUnreadable } from '../errors.ts'
import { missingRun } from './damage-list.ts'
import { damaged, recordPart } from './run-rows.ts'
import type { Table } from './table.ts'
import type { Tables } from './tables.ts'

/** LMDB needs a value, but an index entry has none. */
export const EMPTY_VALUE = Buffer.from([0])
export const TICKET_KEY_CHARS = 22
const FINISHED_CODES = ['c', 'f', 'x']
export const UNFINISHED_CODES = ['q', 'a'] as const
export const UNFINISHED_STATUSES: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']

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

/** The state of the last transaction that is on disk. */
export interface DurableRunIndex {
  readonly counts: RunCounts
  readonly unfinished: UnfinishedRuns
}

/** The index changes of one batch, on top of the durable state. */
export class RunIndexChanges {
  readonly #tables: Tables
  readonly #writer: BatchWriter
  readonly #fields = new Map<string, RunIndexFields | null>()
  readonly #counts: RunCounts
  readonly #unfinished: UnfinishedRuns
  #countsChanged = false

  constructor(tables: Tables, { counts, unfinished }: DurableRunIndex, writer: BatchWriter) {
    this.#tables = tables
    this.#counts = { ...counts }
    this.#unfinished = unfinished
    this.#writer = writer
  }

  /** The transaction is on disk. */
  onCommitted(): void {
    for (const [id, fields] of this.#fields) this.#unfinished.set(id, fields)
  }

  /** Returns the counts after the batch; undefined when they are unchanged. */
  counts(): RunCounts | undefined {
    return this.#countsChanged ? this.#counts : undefined
  }

  /** Loads the index fields of a run before its put. Throws DamagedRecord. */
  load(id: string): void {
    if (this.#fields.has(id)) return
    const known = this.#unfinished.get(id)
    this.#fields.set(id, known === undefined ? durableIndexFields(this.#tables, id) : known)
  }

  /** @param fields null: the run is removed */
  change(id: string, fields: RunIndexFields | null): void {
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

/**
 * Remembers the durable index fields of unfinished runs, each of whose records is replaced a few times within moments.
 * Decoding the earlier record would cost more than writing the new one.
 */
export class UnfinishedRuns {
  readonly #fields = new Map<string, RunIndexFields | null>()

  /** Only for a run about which nothing is stored. */
  begin(id: string): void {
    this.#fields.set(id, null)
  }

  /** Returns null for a run without a record; undefined when it must be read. */
  get(id: string): RunIndexFields | null | undefined {
    return this.#fields.get(id)
  }

  /** @param fields null: the run was removed */
  set(id: string, fields: RunIndexFields | null): void {
    if (fields === null || FINISHED_CODES.includes(STATUS_CODE[fields.status])) this.#fields.delete(id)
    else this.#fields.set(id, fields)
  }

  /** A transaction has failed, so what is on disk must be read again. */
  forget(): void {
    this.#fields.clear()
  }
}

/** Index fields become keys and counters, so a readable record that is no run must be rejected here. */
export function durableIndexFields(tables: Tables, id: string): RunIndexFields | null {
  const run: Partial<Run> | undefined = readRun(tables, id)
  if (run === undefined) return null
  const { status, ticket } = run
  const isWhole =
    status !== undefined &&
    Object.hasOwn(STATUS_CODE, status) &&
    typeof ticket?.id === 'string' &&
    typeof ticket.identifier === 'string'
  if (!isWhole) throw tables.damage.noteRow(tables.runs.name, id)
  return indexFieldsOf(run as Run)
}

/**
 * Ticket ids come from outside and may have any length and characters. Hashed keys have one length, so no key is a
 * prefix of another.
 */
export function ticketKey(ticket: string): string {
  return createHash('sha256').update(ticket).digest('base64url').slice(0, TICKET_KEY_CHARS)
}

// ---- the stored record ---------------------------------------------------------------------------------------------

/** The layout version of a stored run. Each version has one function that migrates it to the next. */
const RUN_VERSION = 1
const MIGRATIONS: Readonly<Record<number, (run: unknown) => unknown>> = {}

/** Runs with a worker share a code: they are few, and the index need not change while a run progresses. */
export const STATUS_CODE: Readonly<Record<RunStatus, string>> = {
  queued: 'q',
  preparing: 'a',
  running: 'a',
  finalizing: 'a',
  completed: 'c',
  failed: 'f',
  cancelled: 'x',
}
export const STATUS_CODES = [...new Set(Object.values(STATUS_CODE))]

export const toStoredRun = (run: Run): readonly [number, Run] => [RUN_VERSION, run]

/**
 * Reads the stored record of one run, and migrates one of an older layout. Throws DamagedRecord, also for a run that
 * an index names and that is missing.
 */
export function readRun(tables: Tables, id: string): Run | undefined {
  try {
    const bytes = tables.runs.get(id)
    if (bytes !== undefined) return migrateRun(id, decoded(tables, id, bytes))
    if (STATUS_CODES.some((code) => tables.byStatus.doesExist(code + id)))
      throw new DamagedRecord(missingRun(id))
    return undefined
  } catch (error) {
    if (isDamagedRecord(error)) tables.damage.note(error.damage)
    throw error
  }
}

function decoded(tables: Tables, id: string, bytes: Uint8Array): unknown {
  try {
    return tables.codec.decode(recordPart(id, bytes))
  } catch (error) {
    throw damaged(id, error)
  }
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
  // The stored value had this type, and migrations keep it.
  return run as Run
}

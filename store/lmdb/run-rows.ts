/**
 * A run and its actor share one row while the run is unfinished: nearly every transition changes both.
 *
 * The row of a run without an actor is its record alone. Otherwise a byte that begins no record, and the length of the
 * record, stand before the two.
 */
import { DamagedRecord, readOr } from '../../core/damage.ts'
import { damagedRun } from './damage-list.ts'
import type { Put } from './encode-writes.ts'
import type { BatchWriter } from './run-index.ts'
import type { Tables } from './tables.ts'

/** The kind of actor whose snapshots lie in the rows of runs. Its own table stays empty since format 4. */
export const RUN_KIND = 'run'
/** The byte that msgpack never uses. */
const JOINED = 0xc1
const HEADER_BYTES = 5

function joinParts(record: Uint8Array, actor: Uint8Array): Uint8Array {
  const row = Buffer.allocUnsafe(HEADER_BYTES + record.length + actor.length)
  row[0] = JOINED
  row.writeUInt32LE(record.length, 1)
  row.set(record, HEADER_BYTES)
  row.set(actor, HEADER_BYTES + record.length)
  return row
}

export function recordPart(id: string, row: Uint8Array): Uint8Array {
  return row[0] === JOINED ? row.subarray(HEADER_BYTES, endOfRecord(id, row)) : row
}

export function actorPart(id: string, row: Uint8Array): Uint8Array | undefined {
  return row[0] === JOINED ? row.subarray(endOfRecord(id, row)) : undefined
}

function endOfRecord(id: string, row: Uint8Array): number {
  if (row.length < HEADER_BYTES) throw damaged(id)
  const end = HEADER_BYTES + Buffer.from(row.buffer, row.byteOffset, row.length).readUInt32LE(1)
  if (end > row.length) throw damaged(id)
  return end
}

export const damaged = (id: string, cause?: unknown): DamagedRecord =>
  new DamagedRecord(damagedRun(id), { cause })

/** Returns the runs of which a commit writes one part only: the other part stays, and is written again. */
export function halfWrittenRuns(puts: readonly Put[]): string[] {
  const records = new Set<string>()
  const actors = new Set<string>()
  for (const put of puts) {
    if (put.to === 'run') records.add(put.key)
    else if (put.to === 'snapshot' && put.kind === RUN_KIND) actors.add(put.key)
  }
  return [...records, ...actors].filter((id) => !(records.has(id) && actors.has(id)))
}

/** The rows of runs as they are on disk while one batch is made; each is read once. */
export class StoredRunRows {
  readonly #tables: Tables
  readonly #rows = new Map<string, Uint8Array | undefined>()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Throws DamagedRecord. */
  get(id: string): Uint8Array | undefined {
    if (!this.#rows.has(id)) this.#rows.set(id, this.#tables.runs.get(id))
    return this.#rows.get(id)
  }

  /** Returns the rows that a commit writes again in part. A damaged one fails the commit later, not its batch. */
  keptBy(halfWritten: readonly string[]): Uint8Array[] {
    return halfWritten.flatMap((id) => {
      const row = readOr(
        () => this.get(id),
        () => undefined,
      )
      return row ?? []
    })
  }
}

/** undefined: as it is on disk. null: there is none. */
interface RowParts {
  record?: Uint8Array | null
  actor?: Uint8Array | null
}

/** The rows that the commits of one batch write. */
export class RunRows {
  readonly #tables: Tables
  readonly #stored: StoredRunRows
  readonly #writer: BatchWriter
  readonly #rows = new Map<string, RowParts>()
  readonly #changed = new Set<string>()

  constructor(tables: Tables, stored: StoredRunRows, writer: BatchWriter) {
    this.#tables = tables
    this.#stored = stored
    this.#writer = writer
  }

  /** Reads what a commit keeps of the rows that it changes. Throws DamagedRecord. */
  load(halfWritten: readonly string[]): void {
    for (const id of halfWritten) {
      const parts = partsIn(this.#rows, id)
      if (parts.record !== undefined && parts.actor !== undefined) continue
      const row = this.#stored.get(id)
      if (parts.record === undefined) parts.record = row === undefined ? null : recordPart(id, row)
      if (parts.actor === undefined) parts.actor = (row && actorPart(id, row)) ?? null
    }
  }

  /** Removing a record removes the actor too. */
  setRecord(id: string, record: Uint8Array | null): void {
    const parts = this.#change(id)
    parts.record = record
    if (record === null) parts.actor = null
  }

  setActor(id: string, actor: Uint8Array | null): void {
    this.#change(id).actor = actor
  }

  #change(id: string): RowParts {
    this.#changed.add(id)
    return partsIn(this.#rows, id)
  }

  /** Writes the rows that have changed since the last call. An actor without a record is not stored. */
  write(): void {
    for (const id of this.#changed) {
      const { record = null, actor = null } = this.#rows.get(id) ?? {}
      const row = record === null || actor === null ? record : joinParts(record, actor)
      this.#writer.write(this.#tables.runs, id, row)
    }
    this.#changed.clear()
  }
}

function partsIn(rows: Map<string, RowParts>, id: string): RowParts {
  const known = rows.get(id)
  if (known !== undefined) return known
  const parts: RowParts = {}
  rows.set(id, parts)
  return parts
}

/** Returns the stored actor of a run. */
export function readActor(tables: Tables, id: string): Uint8Array | undefined {
  const row = tables.runs.get(id)
  return row === undefined ? undefined : actorPart(id, row)
}

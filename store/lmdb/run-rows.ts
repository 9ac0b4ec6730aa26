/**
 * A run and its actor share one row while the run is unfinished: nearly every transition changes both.
 *
 * The row of a run without an actor is its record alone. Otherwise a byte that begins no record, and the length of the
 * record, stand before the two.
 */
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

const endOfRecord = (row: Uint8Array): number =>
  HEADER_BYTES + Buffer.from(row.buffer, row.byteOffset, row.length).readUInt32LE(1)

export function recordPart(row: Uint8Array): Uint8Array {
  return row[0] === JOINED ? row.subarray(HEADER_BYTES, endOfRecord(row)) : row
}

export function actorPart(row: Uint8Array): Uint8Array | undefined {
  return row[0] === JOINED ? row.subarray(endOfRecord(row)) : undefined
}

/** undefined: as it is on disk. null: there is none. */
interface RowParts {
  record?: Uint8Array | null
  actor?: Uint8Array | null
}

/** The rows that the commits of one batch write. */
export class RunRows {
  readonly #tables: Tables
  readonly #writer: BatchWriter
  readonly #rows = new Map<string, RowParts>()
  readonly #changed = new Set<string>()

  constructor(tables: Tables, writer: BatchWriter) {
    this.#tables = tables
    this.#writer = writer
  }

  setRecord(id: string, record: Uint8Array | null): void {
    this.#change(id).record = record
  }

  setActor(id: string, actor: Uint8Array | null): void {
    this.#change(id).actor = actor
  }

  #change(id: string): RowParts {
    this.#changed.add(id)
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    const parts: RowParts = {}
    this.#rows.set(id, parts)
    return parts
  }

  /** Writes the rows that have changed since the last call. An actor without a record is not stored. */
  write(): void {
    for (const id of this.#changed) {
      const { record, actor } = this.#whole(id)
      const row = record === null || actor === null ? record : joinParts(record, actor)
      this.#writer.write(this.#tables.runs, id, row)
    }
    this.#changed.clear()
  }

  #whole(id: string): { readonly record: Uint8Array | null; readonly actor: Uint8Array | null } {
    const { record, actor } = this.#rows.get(id) ?? {}
    if (record !== undefined && actor !== undefined) return { record, actor }
    const row = this.#tables.runs.get(id)
    return {
      record: record !== undefined ? record : row === undefined ? null : recordPart(row),
      actor: actor !== undefined ? actor : row === undefined ? null : (actorPart(row) ?? null),
    }
  }
}

/** Returns the stored actor of a run. */
export function readActor(tables: Tables, id: string): Uint8Array | undefined {
  const row = tables.runs.get(id)
  return row === undefined ? undefined : actorPart(row)
}

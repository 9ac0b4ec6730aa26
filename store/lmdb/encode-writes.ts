/**
 * Encodes writes as bytes.
 *
 * Writes are encoded in the turn that requested them, so later changes of the caller's objects cannot leak in, and a
 * batch that is written again is the same batch. Events are already bytes, which nobody changes. Besides the callers'
 * writes there are the store's own: events move from the buffer to their file, and a migration moves entries of an index
 * and of a table.
 */
import type { Write } from '../../core/ports/store.ts'
import { type EventsWrite, requireWholeLines } from '../event-order.ts'
import type { EventFileRecord } from './event-buffer.ts'
import { chunkKey } from './event-chunks.ts'
import { keyValueKey } from './key-values.ts'
import { maxBytesFor, NODE_BYTES } from './preallocation.ts'
import { indexFieldsOf, type RunIndexFields, toStoredRun } from './run-index.ts'
import { isKey } from './table.ts'
import type { Tables } from './tables.ts'

interface SnapshotPut {
  readonly to: 'snapshot'
  readonly kind: string
  readonly key: string
  readonly bytes: Uint8Array | null
}

/** Without index fields the run is removed. */
export type RunPut =
  | { readonly to: 'run'; readonly key: string; readonly bytes: Uint8Array; readonly fields: RunIndexFields }
  | { readonly to: 'run'; readonly key: string; readonly bytes: null }

interface KeyValuePut {
  readonly to: 'key-value'
  readonly key: string
  readonly bytes: Uint8Array | null
}

/** Events that enter a small log, or the buffer: the batch decides. */
export interface ChunkPut {
  readonly to: 'event-chunk'
  readonly key: string
  readonly bytes: Uint8Array
  readonly runId: string
  readonly first: number
  readonly count: number
  /** Replaces lost events, so its index is below the end of the log. */
  readonly replacesLost?: true
}

/** Events that leave the buffer or a small log, because they are in the file or were removed. */
interface ChunkRemoval {
  readonly to: 'event-chunk' | 'small-log'
  readonly key: string
  readonly bytes: null
}

/**
 * The valid part of a run's event file; `null`: the log is removed. `moved`: bytes that left the buffer with this
 * record.
 */
export interface LogPut {
  readonly to: 'event-file'
  readonly key: string
  readonly record: EventFileRecord | null
  readonly moved: number
}

/** A row as it is stored, which a migration or a repair moves, removes, or writes again with its checksum. */
export interface RowPut {
  readonly to: 'row'
  /** The name, because a table that is opened again is another object. */
  readonly table: string
  readonly key: string
  readonly bytes: Uint8Array | null
}

interface MetaPut {
  readonly to: 'meta'
  readonly key: string
  readonly text: string
}

export type Put = SnapshotPut | RunPut | KeyValuePut | ChunkPut | ChunkRemoval | LogPut | RowPut | MetaPut

/** Throws for writes that cannot be stored: an empty or overlong key, a value that is not plain data, torn events. */
export function encodeWrites(tables: Tables, writes: readonly Write[]): Put[] {
  return writes.map((write) => encode(tables, write))
}

function encode(tables: Tables, write: Write): Put {
  switch (write.table) {
    case 'snapshot': {
      const bytes = write.record === null ? null : tables.codec.encode(write.record)
      return { to: 'snapshot', kind: write.kind, key: checkedKey(write.key), bytes }
    }
    case 'run': {
      const key = checkedKey(write.id)
      if (write.run === null) return { to: 'run', key, bytes: null }
      return {
        to: 'run',
        key,
        bytes: tables.codec.encode(toStoredRun(write.run)),
        fields: indexFieldsOf(write.run),
      }
    }
    case 'key-value': {
      const bytes = write.value === null ? null : tables.codec.encode(write.value)
      return { to: 'key-value', key: keyValueKey(write.collection, checkedKey(write.key)), bytes }
    }
    case 'events':
      return encodeEvents(write)
  }
}

function encodeEvents(write: EventsWrite): ChunkPut {
  const { runId, first, count, lines: bytes } = write
  requireWholeLines(write, bytes)
  return { to: 'event-chunk', key: chunkKey(runId, first), bytes, runId, first, count }
}

function checkedKey(key: string): string {
  if (isKey(key)) return key
  throw new TypeError(`the store takes keys of 1 to 512 bytes, not ${JSON.stringify(key.slice(0, 80))}`)
}

/** A run has a record and entries in two indexes: one by status, two by ticket, each of which may also be removed. */
const RUN_COST = 6 * maxBytesFor(null)

export function costOfPuts(puts: readonly Put[]): number {
  return puts.reduce((sum, put) => sum + costOfPut(put), 0)
}

const RUN_INDEX_BYTES = 6 * NODE_BYTES

export function payloadOfPuts(puts: readonly Put[]): number {
  return puts.reduce((sum, put) => sum + payloadOfPut(put), 0)
}

/** A removal adds no payload. */
function payloadOfPut(put: Put): number {
  if (put.to === 'event-file' || put.to === 'meta') return NODE_BYTES
  if (put.bytes === null) return 0
  return put.bytes.length + NODE_BYTES + (put.to === 'run' ? RUN_INDEX_BYTES : 0)
}

function costOfPut(put: Put): number {
  if (put.to === 'event-file' || put.to === 'meta') return maxBytesFor(null)
  return maxBytesFor(put.bytes) + (put.to === 'run' ? RUN_COST : 0)
}

/**
 * Actor snapshots in LMDB, one table per kind. This class only decodes; the actor interprets its snapshot.
 */
import type { ActorSnapshot, Snapshots } from '../../core/ports.ts'
import { StoreUnreadable } from '../errors.ts'
import { isKey, type Tables } from './tables.ts'

/** Snapshots that are read at once, so that iterating a kind holds no transaction open while the caller works. */
const SNAPSHOTS_PER_PAGE = 256

export class LmdbSnapshots implements Snapshots {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  get(kind: string, key: string): ActorSnapshot | undefined {
    const bytes = isKey(key) ? this.#tables.snapshotsOf(kind)?.get(key) : undefined
    return bytes === undefined ? undefined : this.#decode(kind, key, bytes)
  }

  *all(kind: string): Generator<readonly [string, ActorSnapshot]> {
    let after: string | undefined
    for (;;) {
      const from = after === undefined ? {} : { start: after, exclusiveStart: true }
      const page = [
        ...(this.#tables.snapshotsOf(kind)?.getRange({ ...from, limit: SNAPSHOTS_PER_PAGE }) ?? []),
      ]
      for (const { key, value } of page) yield [key, this.#decode(kind, key, value)]
      after = page.at(-1)?.key
      if (after === undefined || page.length < SNAPSHOTS_PER_PAGE) return
    }
  }

  kinds(): readonly string[] {
    return this.#tables.kinds()
  }

  #decode(kind: string, key: string, bytes: Uint8Array): ActorSnapshot {
    const record = this.#tables.codec.decode(bytes)
    if (isRecord(record)) return record
    throw new StoreUnreadable(
      `the snapshot of ${kind} ${key} is damaged; restore the state folder from a backup`,
    )
  }
}

function isRecord(value: unknown): value is ActorSnapshot {
  if (typeof value !== 'object' || value === null) return false
  return (
    'v' in value && typeof value.v === 'number' && 's' in value && typeof value.s === 'string' && 'c' in value
  )
}

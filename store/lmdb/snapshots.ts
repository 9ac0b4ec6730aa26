/**
 * Actor snapshots in LMDB, one table per kind; those of runs lie in the rows of the runs. This class only decodes; the
 * actor interprets its snapshot.
 */
import type { ActorSnapshot, Snapshots } from '../../core/ports.ts'
import { StoreUnreadable } from '../errors.ts'
import type { Put } from './encode-writes.ts'
import { RUN_KIND, readActor } from './run-rows.ts'
import { unfinishedRunIds } from './runs.ts'
import { isKey, type Tables } from './tables.ts'

/** Snapshots that are read at once, so that iterating a kind holds no transaction open while the caller works. */
const SNAPSHOTS_PER_PAGE = 256

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

  *all(kind: string): Generator<readonly [string, ActorSnapshot]> {
    if (kind === RUN_KIND) yield* this.#actorsOfRuns()
    else yield* this.#inTable(kind)
  }

  *#actorsOfRuns(): Generator<readonly [string, ActorSnapshot]> {
    for (const id of unfinishedRunIds(this.#tables)) {
      const actor = this.get(RUN_KIND, id)
      if (actor !== undefined) yield [id, actor]
    }
  }

  *#inTable(kind: string): Generator<readonly [string, ActorSnapshot]> {
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

  /** Returns the puts that move the actors of runs out of their own table, where they were until format 4. */
  actorMigration(): readonly Put[] {
    const table = this.#tables.snapshotsOf(RUN_KIND)
    return [...(table?.getRange() ?? [])].flatMap(({ key, value }): Put[] => [
      { to: 'snapshot', kind: RUN_KIND, key, bytes: value },
      { to: 'old-actor', key, bytes: null },
    ])
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

/**
 * Actor snapshots in LMDB, one table per kind; those of runs lie in the rows of the runs. This class only decodes; the
 * actor interprets its snapshot. A look-up of a damaged one throws, and a walk names it.
 */
import { type DamagedRecord, readOr } from '../../core/damage.ts'
import type { ActorSnapshot, DamagedSnapshot, Snapshots } from '../../core/ports.ts'
import type { Put } from './encode-writes.ts'
import { RUN_KIND, readActor } from './run-rows.ts'
import { unfinishedRunIds } from './runs.ts'
import { isKey } from './table.ts'
import { SNAPSHOT_PREFIX } from './table-names.ts'
import type { Tables } from './tables.ts'

/** Snapshots that are read at once, so that iterating a kind holds no transaction open while the caller works. */
const SNAPSHOTS_PER_PAGE = 256

type Listed = readonly [key: string, record: ActorSnapshot | DamagedSnapshot]

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

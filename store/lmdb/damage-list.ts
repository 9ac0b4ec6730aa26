/** The list of what is known to be damaged in the data directory. A damaged row leaves it when it is written again. */
import { type Damage, DamagedRecord, type KnownDamage } from '../../core/damage.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import { isRunId } from '../event-order.ts'
import { firstOfChunk, runOfChunk } from './event-chunks.ts'
import { splitKeyValueKey } from './key-values.ts'
import { SNAPSHOT_PREFIX, TABLE } from './table-names.ts'

/** Damaged records that a process remembers. */
const DAMAGE_KNOWN_MAX = 1_000

export const DATABASE = 'state/data.mdb'

export class DamageList implements KnownDamage {
  readonly #damage = new Map<string, Damage>()
  readonly #listeners = new Set<(mended?: string) => void>()

  all(): readonly Damage[] {
    return [...this.#damage.values()]
  }

  get isEmpty(): boolean {
    return this.#damage.size === 0
  }

  onChange(listener: (mended?: string) => void): Cancel {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  note(damage: Damage): void {
    if (this.#damage.has(damage.id) || this.#damage.size >= DAMAGE_KNOWN_MAX) return
    this.#damage.set(damage.id, damage)
    for (const listener of this.#listeners) listener()
  }

  forget(id: string): void {
    if (this.#damage.delete(id)) for (const listener of this.#listeners) listener(id)
  }

  /** Notes a damaged row, and returns the error for who reads it. */
  noteRow(table: string, key: string, cause?: unknown): DamagedRecord {
    const damage = damageOfRow(table, key)
    this.note(damage)
    return new DamagedRecord(damage, { cause })
  }

  /** The row is written anew, or removed. */
  forgetRow(table: string, key: string): void {
    if (this.#damage.size > 0) this.forget(damageOfRow(table, key).id)
  }
}

/** Says what a row of a table holds, and what its damage means. */
export function damageOfRow(table: string, key: string): Damage {
  const where = `${DATABASE}, table ${table}`
  if (table.startsWith(SNAPSHOT_PREFIX)) {
    const kind = table.slice(SNAPSHOT_PREFIX.length)
    return {
      id: `actor ${kind} ${key}`,
      where,
      message: `the stored state of the ${kind} ${key} is damaged, so it could not go on`,
    }
  }
  switch (table) {
    case TABLE.runs:
      return damagedRun(key)
    case TABLE.keyValues: {
      const { collection, key: own } = splitKeyValueKey(key)
      return {
        id: `value ${collection} ${own}`,
        where,
        message: `the stored ${collection} of ${own} is damaged`,
      }
    }
    case TABLE.smallLogs:
    case TABLE.eventChunks: {
      const [runId, first] = [runOfChunk(key), firstOfChunk(key)]
      return {
        id: `events ${runId} ${first}`,
        where,
        message: `events of run ${runId} are damaged, from number ${first} on`,
        ...runOf(runId),
      }
    }
    case TABLE.eventFiles:
      return {
        id: `events ${key}`,
        where,
        message: `the record of the event file of run ${key} is damaged, so its log cannot be read`,
        ...runOf(key),
      }
    default:
      return { id: `row ${table} ${key}`, where, message: messageOfRow(table, key) }
  }
}

function messageOfRow(table: string, key: string): string {
  if (table === TABLE.fileSums)
    return `a checksum of the log of run ${runOfChunk(key)} is damaged, so events from number ${firstOfChunk(key)} on are read without`
  if (table === TABLE.byStatus || table === TABLE.byTicket)
    return `an entry of an index of the runs is damaged, and a start of the host makes it again: ${key}`
  if (table === TABLE.meta && key === 'structures')
    return 'the shapes of all records are damaged, so no run and no state can be read'
  return `a row of the table ${table} is damaged: ${key}`
}

export const damagedRun = (id: string): Damage => ({
  id: `run ${id}`,
  where: `${DATABASE}, table ${TABLE.runs}`,
  message: `the record of run ${id} is damaged, so its ticket, costs and result cannot be read`,
  ...runOf(id),
})

/** Indexes name the run, and its record is not there. */
export const missingRun = (id: string): Damage => ({ ...damagedRun(id), isMissing: true })

/** The key of a damaged row may be no id. */
const runOf = (id: string): { readonly runId?: string } => (isRunId(id) ? { runId: id } : {})

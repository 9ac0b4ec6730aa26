/**
 * Damages rows of the host's disk while no host has it open, and remembers them for the laws.
 *
 * A row is garbled as the real store would have sealed it, and the real checksum must refuse it. Those of a run
 * and of a lease may also be lost: indexes name the one, its run names the other. A page that is torn holds neighbours, so some of them are damaged at once.
 */
import { isSealed, RowSeal } from '../../store/lmdb/file-sums.ts'
import { keyValueKey } from '../../store/lmdb/key-values.ts'
import { SNAPSHOT_PREFIX, TABLE } from '../../store/lmdb/table-names.ts'
import type { Random } from '../support/random.ts'
import type { Row, RowDamage, SimDisk } from './sim-disk.ts'

/** In one of so many seeds the disk of the host is damaged. */
const DAMAGING_OF = 25
export const isHostDamaging = (seed: number): boolean => seed % DAMAGING_OF === 12

const ROWS_MAX = 3
/** A page may hold rows of two collections. */
const SECOND_SHARE = 0.3
const LOST_SHARES: Readonly<Record<string, number>> = { run: 0.2, lease: 0.2 }
const SHORT_SHARE = 0.3

const KINDS: ReadonlySet<string> = new Set(['run', 'lease', 'worker'])
/** Kinds of actors, and collections of key-values; what many decisions depend on stands here more than once. */
const DAMAGED = [
  ...['run', 'run', 'run', 'run', 'lease', 'lease', 'lease', 'lease', 'worker'],
  ...(['mark', 'mark', 'mark', 'ended-lease', 'ended-lease', 'ended-lease'] as const),
  ...(['settled-lease', 'settled-lease', 'ticket', 'ticket', 'session', 'told', 'errand'] as const),
  ...(['day-costs', 'memory', 'trouble', 'join-key', 'clock'] as const),
] as const

/** Few leases live when a host goes down, so these are damaged rather than the others. */
const LIVE: ReadonlySet<string> = new Set(['lease', 'mark'])
const LIVE_SHARE = 0.4

export interface DamagedHostRow {
  readonly collection: string
  readonly key: string
  readonly how: RowDamage
}

export function damageHost(disk: SimDisk, random: Random): DamagedHostRow[] {
  const filled = DAMAGED.filter((collection) => (rowsOf(disk, collection)?.size ?? 0) > 0)
  if (filled.length === 0) return []
  const live = filled.filter((collection) => LIVE.has(collection))
  const first = live.length > 0 && random.chance(LIVE_SHARE) ? random.pick(live) : random.pick(filled)
  const picked = new Set([first, ...(random.chance(SECOND_SHARE) ? [random.pick(filled)] : [])])
  const rows = [...picked].flatMap((collection) => {
    const all = [...(rowsOf(disk, collection) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))
    const from = random.below(all.length)
    return all.slice(from, from + 1 + random.below(ROWS_MAX)).map(([key, { text }]): DamagedHostRow => {
      const lostShare = LOST_SHARES[collection]
      if (lostShare !== undefined && random.chance(lostShare)) return { collection, key, how: 'lost' }
      garble(collection, key, text, random)
      return { collection, key, how: 'garbled' }
    })
  })
  for (const { collection, key, how } of rows) disk.damage(collection, key, how)
  return rows
}

const rowsOf = (disk: SimDisk, collection: string): ReadonlyMap<string, Row<object>> | undefined =>
  collection === 'run' ? disk.runs : (KINDS.has(collection) ? disk.snapshots : disk.keyValues).get(collection)

/** Throws for a row that the store would read. */
function garble(collection: string, key: string, text: string, random: Random): void {
  const isKeyValue = !KINDS.has(collection)
  const table = isKeyValue
    ? TABLE.keyValues
    : collection === 'run'
      ? TABLE.runs
      : SNAPSHOT_PREFIX + collection
  // Only collections of key-values are no kinds.
  const stored = isKeyValue ? keyValueKey(collection as Parameters<typeof keyValueKey>[0], key) : key
  const seal = new RowSeal(table)
  const whole = Uint8Array.from(seal.seal(stored, Buffer.from(text)))
  const row = random.chance(SHORT_SHARE) ? whole.subarray(0, random.below(whole.length)) : whole
  const at = random.below(whole.length)
  if (row === whole) row[at] = (row[at] ?? 0) ^ (1 << random.below(8))
  if (isSealed(row) && seal.open(stored, row) !== undefined)
    throw new Error(`the checksum accepts the garbled ${collection} ${key}`)
}

/** The rows of the host that were ever damaged. */
export class HostDamage {
  readonly #rows = new Set<string>()

  get isEmpty(): boolean {
    return this.#rows.size === 0
  }

  add({ collection, key }: DamagedHostRow): void {
    this.#rows.add(`${collection} ${key}`)
  }

  /** For a run: its record, or the state of its actor. */
  has(collection: string, key: string): boolean {
    return this.#rows.size > 0 && this.#rows.has(`${collection} ${key}`)
  }
}

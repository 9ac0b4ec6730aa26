/**
 * Draws which rows of a worker's disk cannot be read after a crash, and remembers them for the laws.
 *
 * Rows that were not synced are lost with every crash already. Damage hits rows that are on the disk: neighbours, as a torn page
 * holds them.
 */
import type { StoredFrame } from '../../core/lease/outbox.ts'
import type { Random } from '../support/random.ts'
import type { SimDisk } from './sim-disk.ts'

/** In one of so many seeds crashes damage the disks of workers. */
const DAMAGING_OF = 3
/** How often a crash damages rows, in these seeds. */
const CRASH_SHARE = 0.6
const ROWS_MAX = 4
/** A page may hold rows of two collections. */
const SECOND_SHARE = 0.4

/** `execution` is a kind of actors, the others are collections of key-values. Their keys begin with the lease. */
const DAMAGED_COLLECTIONS = ['frame', 'outbox', 'settlement', 'execution'] as const
/** Few crashes happen while reports wait, so these are damaged rather than the others. */
const REPORTS_SHARE = 0.6

export const isDamaging = (seed: number): boolean => seed % DAMAGING_OF === 0

export interface DamagedRow {
  readonly collection: (typeof DAMAGED_COLLECTIONS)[number]
  readonly key: string
  readonly leaseId: string
}

export function damageAfterCrash(disk: SimDisk, random: Random): DamagedRow[] {
  if (!random.chance(CRASH_SHARE)) return []
  const filled = DAMAGED_COLLECTIONS.filter((collection) => keysOf(disk, collection).length > 0)
  if (filled.length === 0) return []
  const isReport = filled[0] === 'frame' && random.chance(REPORTS_SHARE)
  const picked = new Set([isReport ? 'frame' : random.pick(filled)])
  if (random.chance(SECOND_SHARE)) picked.add(random.pick(filled))
  const rows = [...picked].flatMap((collection) => {
    const keys = keysOf(disk, collection).sort()
    const first = random.below(keys.length)
    return keys
      .slice(first, first + 1 + random.below(ROWS_MAX))
      .map((key) => ({ collection, key, leaseId: key.split('/')[0] ?? '' }))
  })
  for (const { collection, key } of rows) disk.damage(collection, key)
  return rows
}

const keysOf = (disk: SimDisk, collection: DamagedRow['collection']): string[] => [
  ...((collection === 'execution' ? disk.snapshots : disk.keyValues).get(collection)?.keys() ?? []),
]

/** The rows that the disks of workers have ever lost. */
export class LostRows {
  readonly #rows = new Set<string>()
  readonly #frames = new Map<string, Set<number>>()

  get isEmpty(): boolean {
    return this.#rows.size === 0
  }

  add(disk: SimDisk, { collection, key, leaseId }: DamagedRow): void {
    this.#rows.add(`${collection} ${key}`)
    if (collection !== 'frame') return
    const seq = Number(key.slice(leaseId.length + 1))
    // The row is still there for the simulation. Only the daemon writes to this collection, and it writes only frames.
    const row = disk.keyValue('frame', key) as StoredFrame | undefined
    const frames = this.#frames.get(leaseId) ?? new Set()
    this.#frames.set(leaseId, frames)
    for (let lost = row?.as === 'gap' ? row.from : seq; lost <= seq; lost++) frames.add(lost)
  }

  has(collection: DamagedRow['collection'], key: string): boolean {
    return this.#rows.has(`${collection} ${key}`)
  }

  /** Whether the row of this frame, or of the gap that named it as lost, was damaged. */
  hasFrame(leaseId: string, seq: number): boolean {
    return this.#frames.get(leaseId)?.has(seq) === true
  }
}

/** The order in which retained sandboxes are discarded: the oldest first, and those with unpushed work never. */
import { SANDBOX_DISK_SHARE_DEFAULT } from '../../protocol/limits.ts'
import type { SandboxRecord } from './sandboxes.ts'

type Retained = Pick<SandboxRecord, 'createdAt' | 'unpushed' | 'bytes' | 'quotaGib'>

const GIB = 1024 ** 3

export function sortForDiscarding<T extends Retained>(records: readonly T[]): T[] {
  return records.filter(({ unpushed }) => !unpushed).sort(compareAges)
}

/** Selects what exceeds the quota. The newest sandbox has the current setting; without one a share of the disk counts. */
export function selectBeyondQuota<T extends Retained>(
  retained: readonly T[],
  diskBytes: number | undefined,
): T[] {
  const quotaGib = retained.toSorted(compareAges).at(-1)?.quotaGib
  const quotaBytes = quotaGib === undefined ? shareOf(diskBytes) : quotaGib * GIB
  let excess = retained.reduce((sum, { bytes }) => sum + bytes, 0) - quotaBytes
  return sortForDiscarding(retained).filter(({ bytes }) => {
    if (excess <= 0) return false
    excess -= bytes
    return true
  })
}

function shareOf(diskBytes: number | undefined): number {
  return diskBytes === undefined ? Number.POSITIVE_INFINITY : diskBytes * SANDBOX_DISK_SHARE_DEFAULT
}

function compareAges(a: Retained, b: Retained): number {
  return a.createdAt === b.createdAt ? 0 : a.createdAt < b.createdAt ? -1 : 1
}

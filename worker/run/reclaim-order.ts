/**
 * The order in which retained sandboxes are discarded: the oldest first, and those with unpushed work after all others.
 */
import type { SandboxRecord } from './sandboxes.ts'

type Retained = Pick<SandboxRecord, 'createdAt' | 'unpushed' | 'bytes' | 'quotaGib'>

const GIB = 1024 ** 3

export function sortForDiscarding<T extends Retained>(records: readonly T[]): T[] {
  return records.toSorted((a, b) => Number(a.unpushed) - Number(b.unpushed) || compareAges(a, b))
}

/** Selects what exceeds the quota. The newest sandbox has the current setting. */
export function selectBeyondQuota<T extends Retained>(retained: readonly T[]): T[] {
  const quotaGib = retained.toSorted(compareAges).at(-1)?.quotaGib
  if (quotaGib === undefined) return []
  let excess = retained.reduce((sum, { bytes }) => sum + bytes, 0) - quotaGib * GIB
  return sortForDiscarding(retained).filter(({ bytes }) => {
    if (excess <= 0) return false
    excess -= bytes
    return true
  })
}

function compareAges(a: Retained, b: Retained): number {
  return a.createdAt === b.createdAt ? 0 : a.createdAt < b.createdAt ? -1 : 1
}

/**
 * Draws how people change the configuration while the host works: by requests, good and bad ones, and by hand.
 *
 * Each change is taken back some time later, and the whole configuration when the faults end.
 */
import type { Random } from '../support/random.ts'

export const SETTING_CHANGES = [
  'pause dispatching',
  'unmap the repository',
  'change the default branch',
  'change the grace period',
  'allow no ticket',
  'change the started state',
  'ask for an invalid value',
  'ask for power without confirming it',
  'edit the file',
  'save half of the file first',
] as const
export type SettingChangeKind = (typeof SETTING_CHANGES)[number]

export interface SettingChange {
  /** `c1`, `c2`, … */
  readonly id: string
  readonly kind: SettingChangeKind
  readonly at: number
  /** When the change is taken back, after `at`. */
  readonly ms: number
  /** Strength or choice, from 0 to 1. */
  readonly size: number
}

/** In seconds; the host waits longest with the default. */
const GRACE_MIN = 20
const GRACE_DEFAULT = 120

export const graceSecondsOf = ({ size }: Pick<SettingChange, 'size'>): number =>
  Math.floor(GRACE_MIN + size * (GRACE_DEFAULT - GRACE_MIN))

export const shortestGraceMs = (changes: readonly SettingChange[] = []): number =>
  Math.min(
    GRACE_DEFAULT,
    ...changes.filter(({ kind }) => kind === 'change the grace period').map(graceSecondsOf),
  ) * 1_000

/** In one of so many seeds the configuration changes. */
const CHANGING_OF = 5
const CHANGES_MAX = 8
const CHANGED_MS = [3_000, 6 * 60_000] as const

export function drawSettingChanges(random: Random, seed: number, faultsEndMs: number): SettingChange[] {
  if (seed % CHANGING_OF !== 0) return []
  return Array.from({ length: 1 + random.below(CHANGES_MAX) }, (_, at) => ({
    id: `c${at + 1}`,
    kind: random.pick(SETTING_CHANGES),
    at: 5_000 + random.fraction() * (faultsEndMs - 10_000),
    ms: CHANGED_MS[0] * (CHANGED_MS[1] / CHANGED_MS[0]) ** random.fraction(),
    size: random.fraction(),
  }))
}

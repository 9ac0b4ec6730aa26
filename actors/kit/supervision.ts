/**
 * What a crash means: another try after a pause, or the end. Pure; the host does the rest.
 */
import type { Supervision } from './kind.ts'

/** What may arrive for a life while it recovers from a crash. More than that, and it is given up. */
export const PARKED_EVENTS_MAX = 10_000

export type CrashVerdict = { readonly is: 'restart'; readonly pauseMs: number } | { readonly is: 'given up' }

export function recentCrashes(crashes: readonly number[], now: number, withinMs: number): readonly number[] {
  return crashes.filter((at) => now - at < withinMs)
}

/** `count`: crashes within the policy's window, this one included. */
export function crashVerdict(policy: Supervision, count: number): CrashVerdict {
  const pauseMs = policy.restartAfterMs[Math.min(count, policy.restartAfterMs.length) - 1]
  if (pauseMs === undefined || count >= policy.crashesMax) return { is: 'given up' }
  return { is: 'restart', pauseMs }
}

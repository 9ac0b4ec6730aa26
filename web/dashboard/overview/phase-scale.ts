/** The one time scale of all phase bars of a table: 5, 15, 30 or 60 minutes, or whole hours above. */

const MINUTE_MS = 60_000
const STEPS = [5, 15, 30, 60] as const

export function phaseScale(agesMs: readonly number[]): number {
  const oldest = Math.max(0, ...agesMs)
  const step = STEPS.find((minutes) => oldest <= minutes * MINUTE_MS)
  return step === undefined ? Math.ceil(oldest / (60 * MINUTE_MS)) * 60 * MINUTE_MS : step * MINUTE_MS
}

/** How long a run has worked and what that has cost, as far as both are known: what its end would throw away. */
import type { Run } from '../../../protocol/run.ts'
import { formatMoney } from '../../text/amounts.ts'
import { ageOf, formatDuration } from '../../text/times.ts'

/** `It has worked for 12 m 41 s, $1.84.`; undefined before the run has begun. */
export function workedWords(
  { startedAt, costTotals }: Pick<Run, 'startedAt' | 'costTotals'>,
  now: number,
): string | undefined {
  if (startedAt === undefined) return undefined
  const cost = costTotals?.costUsd === undefined ? '' : `, ${formatMoney(costTotals)}`
  return `It has worked for ${formatDuration(ageOf(startedAt, now))}${cost}.`
}

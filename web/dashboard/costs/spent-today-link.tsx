/** The costs of this day so far, with their estimated share as the tooltip. */
import { formatShare, formatSum } from '../../text/amounts.ts'
import { incompleteMark } from '../state/current-totals.ts'
import { useSpentToday } from '../state/spent.ts'

export function SpentTodayLink() {
  const today = useSpentToday()
  if (!today?.costUsd) return null
  const { costUsd, estimatedUsd = 0 } = today
  const share = estimatedUsd === 0 ? undefined : `${formatShare(estimatedUsd / costUsd)} estimated`
  return (
    <>
      ,{' '}
      <a href="/costs" title={share}>
        {incompleteMark()}
        {formatSum(today)} today
      </a>
    </>
  )
}

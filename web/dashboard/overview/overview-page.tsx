/** The overview: what needs a person, what runs, what waits and why, what has ended. */
import { PageHead } from '../../elements/page-head.tsx'
import { formatCount } from '../../text/amounts.ts'
import { totals } from '../state/current-totals.ts'

export function Overview() {
  const { inProgress, queued } = totals.value
  return (
    <PageHead
      title="Overview"
      beside={`${formatCount(inProgress)} in progress, ${formatCount(queued)} queued`}
    />
  )
}

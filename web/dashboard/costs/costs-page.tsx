/** The page of costs. */
import { PageHead } from '../../elements/page-head.tsx'

export function CostsPage() {
  return <PageHead title="Costs" />
}

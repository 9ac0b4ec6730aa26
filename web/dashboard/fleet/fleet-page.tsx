/** The page of fleet. */
import { PageHead } from '../../elements/page-head.tsx'

export function FleetPage() {
  return <PageHead title="Fleet" />
}

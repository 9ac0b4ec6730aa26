/** The page of runs. */
import { PageHead } from '../../elements/page-head.tsx'

export function RunsPage() {
  return <PageHead title="Runs" />
}

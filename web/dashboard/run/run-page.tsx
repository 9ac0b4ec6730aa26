/** The page of run. */
import { PageHead } from '../../elements/page-head.tsx'

export function RunPage() {
  return <PageHead title="Run" />
}

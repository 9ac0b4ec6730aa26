/** The page of pull requests. */
import { PageHead } from '../../elements/page-head.tsx'

export function PullsPage() {
  return <PageHead title="Pull requests" />
}

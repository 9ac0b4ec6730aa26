/** The page of pull request. */
import { PageHead } from '../../elements/page-head.tsx'

export function PullPage() {
  return <PageHead title="Pull request" />
}

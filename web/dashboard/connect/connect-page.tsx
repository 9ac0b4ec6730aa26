/** The page of connect. */
import { PageHead } from '../../elements/page-head.tsx'

export function ConnectPage() {
  return <PageHead title="Connect" />
}

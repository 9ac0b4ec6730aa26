/** The page of settings. */
import { PageHead } from '../../elements/page-head.tsx'

export function SettingsPage() {
  return <PageHead title="Settings" />
}

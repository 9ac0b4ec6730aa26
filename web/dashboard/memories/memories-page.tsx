/** The page of memories. */
import { PageHead } from '../../elements/page-head.tsx'

export function MemoriesPage() {
  return <PageHead title="Memories" />
}

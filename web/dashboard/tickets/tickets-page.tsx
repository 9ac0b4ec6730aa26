/** The page of tickets. */
import { PageHead } from '../../elements/page-head.tsx'

export function TicketsPage() {
  return <PageHead title="Tickets" />
}

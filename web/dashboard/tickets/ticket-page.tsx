/** The page of ticket. */
import { PageHead } from '../../elements/page-head.tsx'

export function TicketPage() {
  return <PageHead title="Ticket" />
}

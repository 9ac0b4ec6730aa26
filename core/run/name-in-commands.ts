/** Names things in commands that people copy into a shell. */
import { quoteWord } from '../../protocol/quote-word.ts'
import type { Run, Ticket } from '../../protocol/run.ts'

const PLAIN = /^[\w.-]+$/

/**
 * Returns the name of a run's ticket, or the run's id: some shells take `#` in the name of an issue for a pattern or a
 * comment. Many ids begin alike, so the whole id is named.
 */
export function runInCommand({ id, ticket }: Pick<Run, 'id' | 'ticket'>): string {
  return PLAIN.test(ticket.identifier) ? ticket.identifier : id.replace(/^run-/, '')
}

/** A ticket without a run has only its own name. */
export const ticketInCommand = ({ identifier }: Pick<Ticket, 'identifier'>): string => quoteWord(identifier)

/** The command that shows a pull request: a browser opens pages, and not the files of a local code host. */
export function showPullCommand(run: Pick<Run, 'id' | 'ticket' | 'prUrl'>): string {
  const isPage = /^https?:/.test(run.prUrl ?? '')
  return `switchyard ${isPage ? 'runs open' : 'pulls show'} ${runInCommand(run)}`
}

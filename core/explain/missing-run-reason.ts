/** Says why a ticket has no run, in the words that a queued run has for the same obstacle. */
import type { Gate } from '../../protocol/explain.ts'
import { PAUSED_REASON, placeRun } from '../fleet/placement.ts'
import { waitingReason } from '../tickets/blockers.ts'
import { repoRefusalReason } from '../tickets/repo.ts'
import type { ExplainFacts } from './facts.ts'

/** The first gate that is not open speaks for all; undefined when all of them are open. */
export function missingRunReason(facts: ExplainFacts, gates: readonly Gate[]): string | undefined {
  const gate = gates.find(({ status }) => status !== 'pass')
  switch (gate?.id) {
    case 'repository':
      return repoReason(facts) ?? gate.message
    case 'blockers':
      return waitingReason(
        facts.blockers.map(({ ticket }) => ticket.identifier),
        facts.cycle,
      )
    case 'policy':
      return facts.serviceProblem ?? PAUSED_REASON
    case 'workers':
    case 'capacity':
    case 'credential':
    case 'sandbox': {
      const decision = placeRun(facts.request, facts.workers, facts.now)
      return decision.is === 'waits' ? decision.reason : gate.message
    }
    default:
      return gate?.message
  }
}

function repoReason({ repo, ticket }: ExplainFacts): string | undefined {
  if (repo.is === 'chosen') return undefined
  return repo.is === 'refused' ? repo.reason : repoRefusalReason(ticket, repo)
}

/** The one sentence that says why a ticket or a run waits, or how a run ended. */

import type { ExplainResponse } from '../protocol/explain.ts'
import { withAgentNames } from './agent-names.ts'
import { changedNothing, hasEnded, UNCHANGED_WORDS } from './run-events.ts'

export function explanationOf({ run, ticket, reason, gates }: ExplainResponse, asked: string): string {
  const name = run?.ticket.identifier ?? ticket?.identifier ?? asked
  if (run === undefined) {
    // An older host gives the gates alone.
    const why = reason ?? gates.find(({ status }) => status !== 'pass')?.message
    return why === undefined ? `${name} has no run yet` : `${name} has no run: ${why}`
  }
  if (run.status === 'queued')
    return run.queueReason === undefined
      ? `${name} is next`
      : `${name} waits: ${withAgentNames(run.queueReason)}`
  if (!hasEnded(run))
    return `${name} is ${run.status}${run.waitReason === undefined ? '' : `: ${run.waitReason}`}`
  if (changedNothing(run)) return `${name} ${run.status}: ${UNCHANGED_WORDS}`
  return run.error === undefined ? `${name} ${run.status}` : `${name} ${run.status}: ${run.error}`
}

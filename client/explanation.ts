/**
 * The one sentence that says why a ticket or a run waits, or how a run ended. Commands call agents `claude`, as people
 * type them, and the page calls them `Claude Code`.
 */
import { changedNothing, UNCHANGED_WORDS } from '../protocol/changed-nothing.ts'
import type { ExplainResponse } from '../protocol/explain.ts'
import { agentName, withAgentNames } from './agent-names.ts'
import { hasEnded } from './run-events.ts'

export function explanationOf(
  { run, ticket, reason, gates }: ExplainResponse,
  asked: string,
  nameOf = agentName,
): string {
  const name = run?.ticket.identifier ?? ticket?.identifier ?? asked
  if (run === undefined) {
    // An older host gives the gates alone.
    const why = reason ?? gates.find(({ status }) => status !== 'pass')?.message
    return why === undefined ? `${name} has no run yet` : `${name} has no run: ${why}`
  }
  if (run.status === 'queued') {
    // A run that was sent to a worker has no reason to wait, until that worker is away.
    const why = run.queueReason ?? gates.find(({ status }) => status !== 'pass')?.message
    return why === undefined ? `${name} is next` : `${name} waits: ${withAgentNames(why, nameOf)}`
  }
  if (!hasEnded(run))
    return `${name} is ${run.status}${run.waitReason === undefined ? '' : `: ${run.waitReason}`}`
  if (changedNothing(run)) return `${name} ${run.status}: ${UNCHANGED_WORDS}`
  return run.error === undefined ? `${name} ${run.status}` : `${name} ${run.status}: ${run.error}`
}

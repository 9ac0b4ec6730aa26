/**
 * Which tickets may become runs by themselves, as `tracker.eligible` says.
 *
 * Each of its four lists asks one thing, and an empty list asks nothing. Blockers are not asked about here: a blocked
 * ticket is eligible, its run waits.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { TrackedTicket } from '../ports.ts'
import { isSameName } from './names.ts'

export function isEligible(tracked: TrackedTicket, rules: ServiceConfig['tracker']['eligible']): boolean {
  if (tracked.closed) return false
  const { state, labels, project, assignee } = tracked.ticket
  const { aliases: otherNames } = tracked
  return (
    allows(rules.states, [state]) &&
    allows(rules.labels, labels) &&
    allows(rules.projects, namesOf(project, otherNames?.project)) &&
    allows(rules.assignees, namesOf(assignee, otherNames?.assignee))
  )
}

function namesOf(shown: string | undefined, others: readonly string[] = []): readonly string[] {
  return shown === undefined ? others : [shown, ...others]
}

/** Any one of those listed will do. */
function allows(allowed: readonly string[], names: readonly string[]): boolean {
  return allowed.length === 0 || allowed.some((one) => names.some((name) => isSameName(one, name)))
}

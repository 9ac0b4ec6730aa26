/**
 * Tells which tickets may become runs by themselves, according to `tracker.eligible`.
 *
 * Each of the four lists checks one property, and an empty list allows everything. Blockers are not checked here: a
 * blocked ticket is eligible, and its run waits.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { TrackedTicket } from '../ports.ts'
import { isSameName } from './names.ts'

export function isEligible(tracked: TrackedTicket, rules: ServiceConfig['tracker']['eligible']): boolean {
  if (tracked.closed) return false
  const { state, labels, project, assignee } = tracked.ticket
  const { aliases } = tracked
  return (
    allows(rules.states, [state]) &&
    allows(rules.labels, labels) &&
    allows(rules.projects, namesOf(project, aliases?.project)) &&
    allows(rules.assignees, namesOf(assignee, aliases?.assignee))
  )
}

function namesOf(shown: string | undefined, others: readonly string[] = []): readonly string[] {
  return shown === undefined ? others : [shown, ...others]
}

/** A single match in the list is enough. */
function allows(allowed: readonly string[], names: readonly string[]): boolean {
  return allowed.length === 0 || allowed.some((entry) => names.some((name) => isSameName(entry, name)))
}

/**
 * Tells which tickets may become runs by themselves, according to `tracker.eligible`.
 *
 * Each of the four lists checks one property, and an empty list allows everything. Blockers are not checked here: a
 * blocked ticket is eligible, and its run waits.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import { isSameName } from './names.ts'

export type EligibilityRules = ServiceConfig['tracker']['eligible']

/** `closed`: the ticket is done or abandoned. Otherwise the list that does not allow the ticket. */
export type EligibilityObstacle = 'closed' | keyof EligibilityRules

export const isEligible = (tracked: TrackedTicket, rules: EligibilityRules): boolean =>
  eligibilityObstacle(tracked, rules) === undefined

/** Returns the first thing that keeps the ticket from becoming a run by itself. */
export function eligibilityObstacle(
  tracked: TrackedTicket,
  rules: EligibilityRules,
): EligibilityObstacle | undefined {
  if (tracked.closed) return 'closed'
  const { state, labels, project, assignee } = tracked.ticket
  const { aliases } = tracked
  if (!allows(rules.states, [state])) return 'states'
  if (!allows(rules.labels, labels)) return 'labels'
  if (!allows(rules.projects, namesOf(project, aliases?.project))) return 'projects'
  return allows(rules.assignees, namesOf(assignee, aliases?.assignee)) ? undefined : 'assignees'
}

function namesOf(shown: string | undefined, others: readonly string[] = []): readonly string[] {
  return shown === undefined ? others : [shown, ...others]
}

/** A single match in the list is enough. */
function allows(allowed: readonly string[], names: readonly string[]): boolean {
  return allowed.length === 0 || allowed.some((entry) => names.some((name) => isSameName(entry, name)))
}

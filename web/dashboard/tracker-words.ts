/** Sentences about the tracker and its last poll, for empty lists that explain themselves. */
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { countOf, formatCount } from '../text/amounts.ts'
import { ageOf, formatShortAge } from '../text/times.ts'

const NAMES: Readonly<Record<string, string>> = {
  linear: 'Linear',
  github: 'GitHub',
  local: 'The folder of tickets',
}

export const trackerName = (driver: string | undefined): string => NAMES[driver ?? ''] ?? 'The tracker'

/** `Linear was polled 12 s ago: 14 tickets seen, 0 eligible.` */
export function pollSentence(driver: string | undefined, status: TrackerStatus, now: number): string {
  const name = trackerName(driver)
  const { lastPollAt, seen, eligible, error } = status
  const problem = error === undefined ? '' : ` ${error.charAt(0).toUpperCase()}${error.slice(1)}.`
  if (lastPollAt === undefined) return `${name} was not polled yet.${problem}`
  const found =
    seen === undefined || eligible === undefined
      ? ''
      : `: ${countOf(seen, 'ticket')} seen, ${formatCount(eligible)} eligible`
  return `${name} was polled ${formatShortAge(ageOf(lastPollAt, now))} ago${found}.${problem}`
}

interface EligibleRules {
  readonly states: readonly string[]
  readonly labels: readonly string[]
  readonly projects: readonly string[]
  readonly assignees: readonly string[]
}

/** `Eligible are tickets in state Todo with a label of agent, bot.` Empty lists allow all. */
export function eligibleSentence({ states, labels, projects, assignees }: EligibleRules): string {
  const parts = [
    states.length === 0 ? 'in any open state' : `in state ${orOf(states)}`,
    labels.length === 0 ? '' : `with the label ${orOf(labels)}`,
    projects.length === 0 ? '' : `of the project ${orOf(projects)}`,
    assignees.length === 0 ? '' : `assigned to ${orOf(assignees)}`,
  ]
  return `Eligible are tickets ${parts.filter(Boolean).join(', ')}.`
}

const orOf = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`

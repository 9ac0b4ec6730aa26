/** Sentences about the tracker and its last poll, for empty lists that explain themselves. */
import { priorityWord } from '../../client/priorities.ts'
import { TRACKER_FACTS, type TrackerDriverName } from '../../protocol/drivers.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { countOf, formatCount } from '../text/amounts.ts'
import { capitalized } from '../text/sentences.ts'
import { ageOf, formatShortAge } from '../text/times.ts'

/** The configuration names no driver until it is read. */
export function trackerName(driver: TrackerDriverName | undefined): string {
  if (driver === undefined) return 'The tracker'
  return TRACKER_FACTS[driver].productName ?? 'The folder of tickets'
}

const STATES: Readonly<Record<Exclude<TrackerStatus['state'], 'connected'>, string>> = {
  disconnected: 'is not connected',
  'auth-error': 'refuses its login',
  'refresh-failing': 'does not renew its login',
}

/** `Linear polled 12 s ago`, or why it is not polled. */
export function trackerSentence(
  driver: TrackerDriverName | undefined,
  status: TrackerStatus,
  now: number,
): string {
  const name = trackerName(driver)
  const { state, lastPollAt } = status
  if (state !== 'connected') return `${name} ${STATES[state]}`
  const age = ageOf(lastPollAt, now)
  return age === undefined ? `${name} not polled yet` : `${name} polled ${formatShortAge(age)} ago`
}

/** `Linear was polled 12 s ago: 14 tickets seen, 0 eligible.` */
export function pollSentence(
  driver: TrackerDriverName | undefined,
  status: TrackerStatus,
  now: number,
): string {
  const name = trackerName(driver)
  const { lastPollAt, seen, eligible, error } = status
  const problem = error === undefined ? '' : ` ${capitalized(error)}.`
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

/** The names of priorities in lists of choices, at the number of each. */
export const PRIORITY_NAMES: readonly string[] = [0, 1, 2, 3, 4].map((priority) =>
  capitalized(priorityWord(priority) ?? 'none'),
)

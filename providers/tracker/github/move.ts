/**
 * Moves an issue to another state: adds the label of the new state, then removes the labels of other states.
 *
 * So an issue is never without a state, and an interrupted move can be repeated. States such as `Done` close the issue.
 * A closed issue stays closed, because a person closed it.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { GithubApi } from '../../github/api.ts'
import { CLOSED_STATES } from '../local/ticket-file.ts'
import { refuseMovedTicket } from '../tracker-driver.ts'
import { findStateLabels, type GithubIssue, OPEN_STATE } from './issue.ts'

const NOT_PLANNED_STATES = ['canceled', 'cancelled', 'duplicate', 'wontfix']

/** Tells whether an issue in this state is closed. */
export function isClosingState(state: string): boolean {
  return isOneOf(state, CLOSED_STATES)
}

export interface GithubIssueMove {
  readonly state: string
  /** Allowed current states; undefined: any state. */
  readonly from: readonly string[] | undefined
}

export async function moveIssue(
  api: GithubApi,
  issue: GithubIssue,
  { state, from }: GithubIssueMove,
  stateNames: readonly string[],
): Promise<Result<void>> {
  const labels = findStateLabels(issue, stateNames)
  const current = labels[0] ?? OPEN_STATE
  const isAllowed = from === undefined || isOneOf(current, from)
  if (isClosingState(state)) {
    if (issue.isOpen && !isAllowed) return refuseMovedIssue(issue, current)
    return closeIssue(api, issue, state, labels)
  }
  if (!issue.isOpen) {
    const { number, remote } = issue
    return no(
      'invalid',
      `issue ${number} of ${remote} is closed, and stays so; reopen it to have it ${printable(state)}`,
    )
  }
  const hasLabel = issue.labels.some((label) => isSameName(label, state))
  if (!hasLabel && !isAllowed) return refuseMovedIssue(issue, current)
  if (!hasLabel && !isSameName(state, OPEN_STATE)) {
    const added = await writeIssue(api, issue, 'POST', '/labels', { labels: [state.trim()] })
    if (!added.ok) return added
  }
  return removeLabels(
    api,
    issue,
    labels.filter((label) => !isSameName(label, state)),
  )
}

const refuseMovedIssue = ({ number, remote }: GithubIssue, state: string) =>
  refuseMovedTicket(`issue ${number} of ${remote}`, state)

async function closeIssue(
  api: GithubApi,
  issue: GithubIssue,
  state: string,
  labels: readonly string[],
): Promise<Result<void>> {
  if (issue.isOpen) {
    const reason = isOneOf(state, NOT_PLANNED_STATES) ? 'not_planned' : 'completed'
    const done = await writeIssue(api, issue, 'PATCH', '', { state: 'closed', state_reason: reason })
    if (!done.ok) return done
  }
  return removeLabels(api, issue, labels)
}

/** A label that is already gone counts as removed. */
async function removeLabels(
  api: GithubApi,
  issue: GithubIssue,
  labels: readonly string[],
): Promise<Result<void>> {
  for (const label of labels) {
    const removed = await writeIssue(api, issue, 'DELETE', `/labels/${encodeURIComponent(label)}`)
    if (!removed.ok && removed.refusal.kind !== 'unknown') return removed
  }
  return yes(undefined)
}

async function writeIssue(
  api: GithubApi,
  { remote, number }: GithubIssue,
  method: 'POST' | 'PATCH' | 'DELETE',
  below: string,
  body?: object,
): Promise<Result<void>> {
  const path = `/repos/${remote}/issues/${number}${below}`
  const written = await api.write(method, path, `issue ${number} of ${remote}`, body)
  return written.ok ? yes(undefined) : written
}

const isOneOf = (state: string, names: readonly string[]): boolean =>
  names.some((name) => isSameName(name, state))

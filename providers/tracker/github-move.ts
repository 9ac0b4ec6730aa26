/**
 * Moving an issue to another state: the label of the new one is put on, then those of the others are taken off.
 *
 * In this order an issue is never without a state, and a move that was cut off is simply made again. A state with a
 * name such as `Done` closes the issue. A closed one is not opened again by a move: a person closed it.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { isSameName } from '../../core/tickets/names.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { GithubApi } from '../codehost/github/api.ts'
import { type Issue, OPEN, stateLabelsOf } from './github-issue.ts'
import { elsewhere } from './moved-error.ts'
import { CLOSED_STATES } from './ticket-file.ts'

const GIVEN_UP = ['canceled', 'cancelled', 'duplicate', 'wontfix']

/** Whether an issue that is in it is closed. */
export function isClosing(state: string): boolean {
  return isOneOf(state, CLOSED_STATES)
}

export interface MoveOrder {
  readonly state: string
  /** Out of which it may be taken; undefined: any. */
  readonly from: readonly string[] | undefined
}

export async function moveIssue(
  api: GithubApi,
  issue: Issue,
  { state, from }: MoveOrder,
  stateNames: readonly string[],
): Promise<Result<void>> {
  const labels = stateLabelsOf(issue, stateNames)
  if (isClosing(state)) return closed(api, issue, state, labels)
  if (!issue.open) {
    const { number, remote } = issue
    return no(
      'invalid',
      `issue ${number} of ${remote} is closed, and stays so; reopen it to have it ${printable(state)}`,
    )
  }
  const isThere = issue.labels.some((label) => isSameName(label, state))
  const now = labels[0] ?? OPEN
  if (!isThere && from !== undefined && !isOneOf(now, from)) {
    return elsewhere(`issue ${issue.number} of ${issue.remote}`, now)
  }
  if (!isThere && !isSameName(state, OPEN)) {
    const added = await write(api, issue, 'POST', '/labels', { labels: [state.trim()] })
    if (!added.ok) return added
  }
  return withoutLabels(
    api,
    issue,
    labels.filter((label) => !isSameName(label, state)),
  )
}

async function closed(
  api: GithubApi,
  issue: Issue,
  state: string,
  labels: readonly string[],
): Promise<Result<void>> {
  if (issue.open) {
    const reason = isOneOf(state, GIVEN_UP) ? 'not_planned' : 'completed'
    const done = await write(api, issue, 'PATCH', '', { state: 'closed', state_reason: reason })
    if (!done.ok) return done
  }
  return withoutLabels(api, issue, labels)
}

/** One that somebody else has taken off meanwhile is off. */
async function withoutLabels(api: GithubApi, issue: Issue, labels: readonly string[]): Promise<Result<void>> {
  for (const label of labels) {
    const removed = await write(api, issue, 'DELETE', `/labels/${encodeURIComponent(label)}`)
    if (!removed.ok && removed.refusal.kind !== 'unknown') return removed
  }
  return yes(undefined)
}

async function write(
  api: GithubApi,
  { remote, number }: Issue,
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

/**
 * Reads GitHub's lists: repositories of the account, pull requests of a repository, and their states.
 *
 * An unchanged list costs almost nothing, so lists are preferred to many single requests.
 */
import type { PullFacts, PullReference, Urgency } from '../../../core/provider-ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import { CODEHOST_REPOS_MAX, PULLS_DONE_MAX, PULLS_OPEN_MAX } from '../../../protocol/limits.ts'
import type { CodehostRepo } from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import { type GithubApi, PAGE_ITEMS_MAX, PROSE_PAGE_ITEMS_MAX, repoPath } from './api.ts'
import { readPull } from './detail.ts'
import { PULL_LIST_PROJECTION } from './list-projection.ts'
import { readState, toPullFacts, toRecords, toRepo } from './records.ts'

const REPOS = `/user/repos?sort=pushed&direction=desc&affiliation=owner,collaborator,organization_member&per_page=${PAGE_ITEMS_MAX}`

export async function listRepos(api: GithubApi): Promise<Result<readonly CodehostRepo[]>> {
  const pagesMax = CODEHOST_REPOS_MAX / PAGE_ITEMS_MAX
  const listed = await api.list(REPOS, { subject: 'list of repositories', urgency: 'person', pagesMax })
  if (!listed.ok) return listed
  const repos = toRecords(listed.value.items, toRepo)
  return yes(uniqueBy(repos, ({ fullName }) => fullName).slice(0, CODEHOST_REPOS_MAX))
}

export async function listPulls(
  api: GithubApi,
  remote: string,
  urgency: Urgency,
): Promise<Result<readonly PullFacts[]>> {
  const [open, done] = await Promise.all([
    listPullsInState(api, remote, { state: 'open', pullsMax: PULLS_OPEN_MAX, urgency }),
    listPullsInState(api, remote, { state: 'closed', pullsMax: PULLS_DONE_MAX, urgency }),
  ])
  if (!open.ok) return open
  if (!done.ok) return done
  // A pull request closed between the two reads is in both lists; the closed entry is newer.
  const pulls = uniqueBy([...done.value, ...open.value], ({ number }) => number)
  return yes(pulls.sort(latestFirst))
}

/** Takes open pull requests from one list, and reads the others one by one. A single number is read directly. */
export async function readPullStates(
  api: GithubApi,
  remote: string,
  numbers: readonly number[],
  urgency: Urgency,
): Promise<Result<ReadonlyMap<number, PullState>>> {
  const wanted = [...new Set(numbers)]
  const request = { state: 'open', pullsMax: PULLS_OPEN_MAX, urgency } as const
  const open = wanted.length > 1 ? await listPullsInState(api, remote, request) : yes([])
  if (!open.ok) return open
  const known = new Map(open.value.map(({ number, state }) => [number, state]))
  const others = wanted.filter((number) => !known.has(number))
  const asked = await Promise.all(others.map((number) => readPullState(api, { remote, number }, urgency)))
  const states = new Map(wanted.flatMap((number) => toEntry(number, known.get(number))))
  for (const [index, state] of asked.entries()) {
    const number = others[index]
    if (state.ok && number !== undefined) states.set(number, state.value)
    else if (!state.ok && state.refusal.kind !== 'unknown') return state
  }
  return yes(states)
}

/** Compares ISO texts directly; `localeCompare` would dominate the run time. */
function latestFirst(a: PullFacts, b: PullFacts): number {
  return a.updatedAt < b.updatedAt ? 1 : a.updatedAt > b.updatedAt ? -1 : 0
}

interface PullListRequest {
  readonly state: 'open' | 'closed'
  readonly pullsMax: number
  readonly urgency: Urgency
}

async function listPullsInState(
  api: GithubApi,
  remote: string,
  { state, pullsMax, urgency }: PullListRequest,
): Promise<Result<PullFacts[]>> {
  const repo = repoPath(remote)
  if (!repo.ok) return repo
  const perPage = Math.min(pullsMax, PROSE_PAGE_ITEMS_MAX)
  const query = `state=${state}&sort=updated&direction=desc&per_page=${perPage}`
  const pages = await api.list(`${repo.value}/pulls?${query}`, {
    subject: `repository ${remote}`,
    urgency,
    pagesMax: pullsMax / perPage,
    projection: PULL_LIST_PROJECTION,
  })
  return pages.ok ? yes(toRecords(pages.value.items, toPullFacts)) : pages
}

async function readPullState(
  api: GithubApi,
  { remote, number }: PullReference,
  urgency: Urgency,
): Promise<Result<PullState>> {
  const repo = repoPath(remote)
  if (!repo.ok) return repo
  const subject = `pull request ${number} of ${remote}`
  const pull = await readPull({ api, place: { remote, number }, repo: repo.value, subject }, urgency)
  return pull.ok ? yes(readState(pull.value)) : pull
}

function toEntry(number: number, state: PullState | undefined): (readonly [number, PullState])[] {
  return state === undefined ? [] : [[number, state]]
}

/** Keeps the first item of each key. */
function uniqueBy<T, K>(items: readonly T[], keyOf: (item: T) => K): T[] {
  const found = new Map<K, T>()
  for (const item of items) if (!found.has(keyOf(item))) found.set(keyOf(item), item)
  return [...found.values()]
}

/**
 * Reads GitHub's lists: repositories of the account, pull requests of a repository, and their states.
 *
 * An unchanged list costs almost nothing, so lists are preferred to many single requests.
 */
import type { PullFacts, PullReference, Urgency } from '../../../core/ports/code-host.ts'
import { type Result, yes } from '../../../core/result.ts'
import { CODEHOST_REPOS_MAX, PULLS_DONE_MAX, PULLS_OPEN_MAX } from '../../../protocol/limits.ts'
import { parseJson } from '../../../protocol/parse.ts'
import type { CodehostRepo, PullSummary } from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import {
  ANSWER_KEYS_MAX,
  type GithubApi,
  PAGE_ITEMS_MAX,
  PROSE_PAGE_ITEMS_MAX,
  repoPath,
} from '../../github/api.ts'
import { asList, asPositiveInteger } from '../../github/fields.ts'
import type { ReplyProjection } from '../../http/client-types.ts'
import { readField } from '../../http/reply-fields.ts'
import { readPull } from './detail.ts'
import { readState, toPullFacts, toRecords, toRepo } from './records.ts'
import { variablesOfRepo } from './threads.ts'

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
  const repo = repoPath(remote)
  if (!repo.ok) return repo
  const [open, done, counts] = await Promise.all([
    listPullsInState(api, remote, { state: 'open', pullsMax: PULLS_OPEN_MAX, urgency }),
    listPullsInState(api, remote, { state: 'closed', pullsMax: PULLS_DONE_MAX, urgency }),
    readPullCounts(api, remote, urgency),
  ])
  if (!open.ok) return open
  if (!done.ok) return done
  // A pull request closed between the two reads is in both lists; the closed entry is newer.
  const pulls = uniqueBy([...done.value, ...open.value], ({ number }) => number)
  return yes(pulls.sort(latestFirst).map((pull) => ({ ...pull, ...counts.get(pull.number) })))
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

// ---- the counts of many pull requests ------------------------------------------------------------------------------

type PullCounts = Pick<PullFacts, 'additions' | 'deletions' | 'changedFiles' | 'commentCount' | 'checksState'>

const CHECKS = 'commits(last: 1) { nodes { commit { statusCheckRollup { state } } } }'
const queryWith = (checks: string) => `query PullCounts($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name) {
    open: pullRequests(states: [OPEN], first: ${PULLS_COUNTED_MAX}, orderBy: { field: UPDATED_AT, direction: DESC }) {
      nodes { number additions deletions changedFiles totalCommentsCount ${checks} }
    }
    done: pullRequests(states: [CLOSED, MERGED], first: ${PULLS_DONE_MAX}, orderBy: { field: UPDATED_AT, direction: DESC }) {
      nodes { number additions deletions changedFiles totalCommentsCount ${checks} }
    }
  }
}`
const STATES: Readonly<Record<string, PullSummary['checksState']>> = {
  SUCCESS: 'passed',
  FAILURE: 'failed',
  ERROR: 'failed',
  PENDING: 'running',
  EXPECTED: 'running',
}

/** Open pull requests of a repository whose size, checks and comments a list has: the newest ones. */
const PULLS_COUNTED_MAX = 100

/**
 * Reads size, checks and comments of a repository's pull requests, by number: one query for all, because GitHub's
 * lists lack them.
 *
 * A token may lack access to checks; the query is then sent again without them. A list without these facts is still a
 * list, so no failure is passed on: the answer is then empty.
 */
async function readPullCounts(
  api: GithubApi,
  remote: string,
  urgency: Urgency,
): Promise<ReadonlyMap<number, PullCounts>> {
  const ask = (checks: string) =>
    api.graphql({
      query: queryWith(checks),
      variables: variablesOfRepo(remote),
      subject: `repository ${remote}`,
      urgency,
    })
  const whole = await ask(CHECKS)
  const isForbidden = !whole.ok && whole.refusal.kind === 'forbidden'
  const data = isForbidden ? await ask('') : whole
  if (!data.ok) return new Map()
  const nodes = ['open', 'done'].flatMap((list) => asList(readField(data.value, 'repository', list, 'nodes')))
  return new Map(nodes.flatMap(toCountEntry))
}

function toCountEntry(pull: unknown): (readonly [number, PullCounts])[] {
  const number = asPositiveInteger(readField(pull, 'number'))
  if (number === undefined) return []
  const counts = {
    additions: toCount(readField(pull, 'additions')),
    deletions: toCount(readField(pull, 'deletions')),
    changedFiles: toCount(readField(pull, 'changedFiles')),
    commentCount: toCount(readField(pull, 'totalCommentsCount')),
    checksState: readChecksState(pull),
  }
  // An absent key says that a fact is not known.
  const known = Object.entries(counts).filter(([, value]) => value !== undefined)
  return [[number, Object.fromEntries(known)]]
}

const toCount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** A commit that has no check has no rollup. */
function readChecksState(pull: unknown): PullSummary['checksState'] {
  const [newest] = asList(readField(pull, 'commits', 'nodes'))
  const rollup = readField(newest, 'commit', 'statusCheckRollup')
  if (rollup === null) return 'none'
  const state = readField(rollup, 'state')
  return typeof state === 'string' && Object.hasOwn(STATES, state) ? STATES[state] : undefined
}

// ---- what is kept of a list ----------------------------------------------------------------------------------------

/**
 * Reduces GitHub's lists of pull requests to the fields that are used. It keeps GitHub's structure, so the same code
 * reads lists and single pull requests.
 *
 * GitHub sends both repositories with each pull request, a hundred times as much data. The full lists of fifty
 * repositories would take tens of MiB of cache and 100 ms to parse.
 */
export const PULL_LIST_PROJECTION: ReplyProjection = {
  name: 'pull list',
  apply(text) {
    const list = parseJson(text, ANSWER_KEYS_MAX)
    return list.ok && Array.isArray(list.value) ? JSON.stringify(list.value.map(projectPull)) : text
  },
}

const FIELDS = [
  'number',
  'html_url',
  'title',
  'state',
  'draft',
  'merged',
  'merged_at',
  'created_at',
  'updated_at',
]

function projectPull(pull: unknown): object {
  return {
    ...Object.fromEntries(FIELDS.map((name) => [name, readField(pull, name)])),
    user: { login: readField(pull, 'user', 'login') },
    base: { ref: readField(pull, 'base', 'ref') },
    head: { ref: readField(pull, 'head', 'ref') },
  }
}

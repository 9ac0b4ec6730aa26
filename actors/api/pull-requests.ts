/**
 * API calls about the code host: repositories, pull requests, and what people do to them.
 *
 * A refusal of the code host is answered as the specification says: unknown is 404, a conflict is 409, and everything
 * else is a request that can't be carried out (400).
 */
import type { PullFacts, PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { PullListResponse, PullSummary } from '../../protocol/pulls.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ApiDependencies } from './create-host-api.ts'
import type { HostApi } from './host-api.ts'

/** Repositories that are listed at once. */
const PULL_REPOS_AT_ONCE = 25

type PullRequestsApi = Pick<
  HostApi,
  | 'codehostRepos'
  | 'pulls'
  | 'pull'
  | 'mergePull'
  | 'closePull'
  | 'reopenPull'
  | 'readyPull'
  | 'commentPull'
  | 'reviewPull'
  | 'replyPull'
  | 'resolveThread'
>

interface PullTarget {
  readonly codeHost: PullRequestApi
  readonly pull: PullReference
}

export function createPullRequestsApi(api: ApiDependencies): PullRequestsApi {
  const { pullRequestApi, config } = api.context
  const change = <T>(
    repo: string,
    number: number,
    action: (codeHost: PullRequestApi, pull: PullReference) => Promise<Result<T>>,
  ) => changePull(api, repo, number, action)

  return {
    async codehostRepos() {
      const connected = pullRequestApi()
      return toApiResult(connected.ok ? await connected.value.repos() : connected)
    },
    async pulls() {
      const connected = pullRequestApi()
      if (!connected.ok) return toApiResult(connected)
      const repos = Object.entries(config().repos).map(([key, { remote }]): MappedRepo => [key, remote])
      const { pulls, errors } = await listPulls(connected.value, repos)
      return yes({ pulls: pulls.map((pull) => ({ ...pull, ...openerOf(api, pull) })), errors })
    },
    async pull(repo, number) {
      const target = findPull(api, repo, number)
      if (!target.ok) return target
      const { codeHost, pull } = target.value
      const detail = await codeHost.detail(pull)
      if (!detail.ok) return toApiResult(detail)
      api.views.attention.onPullDetail(detail.value)
      return yes({ repo, remote: pull.remote, ...detail.value, ...openerOf(api, detail.value) })
    },
    mergePull: (repo, number, { method, headSha }) =>
      change(repo, number, async (codeHost, pull) => {
        const merged = await codeHost.merge(pull, method, headSha)
        return merged.ok ? yes({ merged: true, message: merged.value }) : merged
      }),
    closePull: (repo, number) => change(repo, number, (codeHost, pull) => codeHost.close(pull)),
    reopenPull: (repo, number) => change(repo, number, (codeHost, pull) => codeHost.reopen(pull)),
    readyPull: (repo, number) => change(repo, number, (codeHost, pull) => codeHost.markReady(pull)),
    commentPull: (repo, number, { body }) =>
      change(repo, number, (codeHost, pull) => codeHost.comment(pull, body)),
    reviewPull: (repo, number, review) =>
      change(repo, number, (codeHost, pull) => codeHost.review(pull, review)),
    replyPull: (repo, number, reply) => change(repo, number, (codeHost, pull) => codeHost.reply(pull, reply)),
    resolveThread: (repo, number, request) =>
      change(repo, number, (codeHost, pull) => codeHost.resolveThread(pull, request)),
  }
}

function openerOf({ views }: ApiDependencies, { url }: Pick<PullFacts, 'url'>): Pick<PullSummary, 'run'> {
  const run = views.attention.openerOf(url)
  return run === undefined ? {} : { run }
}

/** A missing connection is reported first, whatever else is wrong: its cure comes first. */
function findPull({ context }: ApiDependencies, repo: string, number: number): Result<PullTarget> {
  const codeHost = context.pullRequestApi()
  if (!codeHost.ok) return toApiResult(codeHost)
  const { repos } = context.config()
  const mapping = Object.hasOwn(repos, repo) ? repos[repo] : undefined
  if (mapping === undefined)
    return no('unknown', `${printable(repo)} is not a key under repos in the configuration`)
  return yes({ codeHost: codeHost.value, pull: { remote: mapping.remote, number } })
}

async function changePull<T>(
  api: ApiDependencies,
  repo: string,
  number: number,
  action: (codeHost: PullRequestApi, pull: PullReference) => Promise<Result<T>>,
): Promise<Result<T>> {
  const target = findPull(api, repo, number)
  if (!target.ok) return target
  const changed = await action(target.value.codeHost, target.value.pull)
  if (changed.ok) api.views.pullStates.pollPull(target.value.pull)
  return toApiResult(changed)
}

/** A code host that is unreachable is no failure of this service. */
export function toApiResult<T>(answer: Result<T>): Result<T> {
  if (answer.ok || answer.refusal.kind === 'unknown' || answer.refusal.kind === 'conflict') return answer
  return no('invalid', answer.refusal.message)
}

// ---- listing -----------------------------------------------------------------------------------------------------

type MappedRepo = readonly [key: string, remote: string]

/** A repository that two keys name is listed once. */
async function listPulls(codeHost: PullRequestApi, repos: readonly MappedRepo[]): Promise<PullListResponse> {
  const remotes = [...new Set(repos.map(([, remote]) => remote))]
  const answers = new Map<string, Result<readonly PullFacts[]>>()
  const queue = remotes.values()
  const listNext = async () => {
    for (const remote of queue) answers.set(remote, await codeHost.list(remote, 'person'))
  }
  await Promise.all(Array.from({ length: PULL_REPOS_AT_ONCE }, listNext))
  return mergeLists(repos, answers)
}

function mergeLists(
  repos: readonly MappedRepo[],
  answers: ReadonlyMap<string, Result<readonly PullFacts[]>>,
): PullListResponse {
  const pulls: PullSummary[] = []
  const errors: PullListResponse['errors'] = []
  for (const [repo, remote] of repos) {
    const answer = answers.get(remote)
    if (answer?.ok === true) pulls.push(...answer.value.map((facts) => ({ repo, remote, ...facts })))
    else if (answer !== undefined) errors.push({ repo, remote, message: answer.refusal.message })
  }
  return { pulls: pulls.sort((a, b) => compareText(b.updatedAt, a.updatedAt)), errors }
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

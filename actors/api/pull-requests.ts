/**
 * The front desk's part about the code host: repositories, pull requests, and what people do to them.
 *
 * A code host's refusal is told as the specification has it: what is not there, what is not possible in this state,
 * and everything else as a request that can't be met.
 */
import type { PullFacts, PullReference, PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { PULL_REPOS_AT_ONCE } from '../../protocol/limits.ts'
import type { PullListResponse, PullSummary } from '../../protocol/pulls.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { PullStatePoller } from '../runs/pull-state-poller.ts'
import type { HostApi } from './host-api.ts'

export interface PullRequestApiPorts {
  readonly config: () => ServiceConfig
  readonly codeHost: () => Result<PullRequestApi>
  readonly pullStatePoller: PullStatePoller
}

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

type MappedRepository = readonly [key: string, remote: string]

export function createPullRequestApi({
  config,
  codeHost,
  pullStatePoller: watch,
}: PullRequestApiPorts): PullRequestsApi {
  /** Not connected comes first: it says what to do, whatever was asked for. */
  const locatePull = (
    repo: string,
    number: number,
  ): Result<{ host: PullRequestApi; place: PullReference }> => {
    const host = codeHost()
    if (!host.ok) return toApiRefusal(host)
    const { repos } = config()
    const mapping = Object.hasOwn(repos, repo) ? repos[repo] : undefined
    if (mapping === undefined)
      return no('unknown', `${printable(repo)} is not a key under repos in the configuration`)
    return yes({ host: host.value, place: { remote: mapping.remote, number } })
  }
  const runOnPull = async <T>(
    repo: string,
    number: number,
    action: (host: PullRequestApi, place: PullReference) => Promise<Result<T>>,
  ): Promise<Result<T>> => {
    const where = locatePull(repo, number)
    if (!where.ok) return where
    const answer = await action(where.value.host, where.value.place)
    if (answer.ok) watch.pollPull(where.value.place)
    return toApiRefusal(answer)
  }

  return {
    async codehostRepos() {
      const host = codeHost()
      return toApiRefusal(host.ok ? await host.value.repos() : host)
    },
    async pulls() {
      const host = codeHost()
      if (!host.ok) return toApiRefusal(host)
      const repos = Object.entries(config().repos).map(([key, { remote }]): MappedRepository => [key, remote])
      return yes(await listAll(host.value, repos))
    },
    async pull(repo, number) {
      const where = locatePull(repo, number)
      if (!where.ok) return where
      const { host, place } = where.value
      const detail = await host.detail(place)
      return detail.ok ? yes({ repo, remote: place.remote, ...detail.value }) : toApiRefusal(detail)
    },
    mergePull: (repo, number, { method }) =>
      runOnPull(repo, number, async (host, place) => {
        const merged = await host.merge(place, method)
        return merged.ok ? yes({ merged: true, message: merged.value }) : merged
      }),
    closePull: (repo, number) => runOnPull(repo, number, (host, place) => host.close(place)),
    reopenPull: (repo, number) => runOnPull(repo, number, (host, place) => host.reopen(place)),
    readyPull: (repo, number) => runOnPull(repo, number, (host, place) => host.markReady(place)),
    commentPull: (repo, number, { body }) =>
      runOnPull(repo, number, (host, place) => host.comment(place, body)),
    reviewPull: (repo, number, review) =>
      runOnPull(repo, number, (host, place) => host.review(place, review)),
    replyPull: (repo, number, reply) => runOnPull(repo, number, (host, place) => host.reply(place, reply)),
    resolveThread: (repo, number, wish) =>
      runOnPull(repo, number, (host, place) => host.resolveThread(place, wish)),
  }
}

/** A code host that is away is nothing of ours that failed. */
export function toApiRefusal<T>(answer: Result<T>): Result<T> {
  if (answer.ok || answer.refusal.kind === 'unknown' || answer.refusal.kind === 'conflict') return answer
  return no('invalid', answer.refusal.message)
}

// ---- all of them -------------------------------------------------------------------------------------------------

/** A repository that two keys stand for is asked once. */
async function listAll(host: PullRequestApi, repos: readonly MappedRepository[]): Promise<PullListResponse> {
  const remotes = [...new Set(repos.map(([, remote]) => remote))]
  const answers = new Map<string, Result<readonly PullFacts[]>>()
  const remaining = remotes.values()
  const askNext = async () => {
    for (const remote of remaining) answers.set(remote, await host.list(remote, 'person'))
  }
  await Promise.all(Array.from({ length: PULL_REPOS_AT_ONCE }, askNext))
  return mergeAnswers(repos, answers)
}

function mergeAnswers(
  repos: readonly MappedRepository[],
  answers: ReadonlyMap<string, Result<readonly PullFacts[]>>,
): PullListResponse {
  const pulls: PullSummary[] = []
  const errors: PullListResponse['errors'] = []
  for (const [repo, remote] of repos) {
    const answer = answers.get(remote)
    if (answer?.ok === true) pulls.push(...answer.value.map((facts) => ({ repo, remote, ...facts })))
    else if (answer !== undefined) errors.push({ repo, remote, message: answer.refusal.message })
  }
  return { pulls: pulls.sort((a, b) => compareTexts(b.updatedAt, a.updatedAt)), errors }
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

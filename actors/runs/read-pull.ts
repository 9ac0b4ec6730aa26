/**
 * `readPull` reads the state and the discussion of one pull request from the code host.
 */
import type { PullReference, PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { type PullDiscussion, readDiscussion } from '../../core/run/follow-up.ts'
import type { RepoMapping } from '../../protocol/config.ts'
import type { PullState } from '../../protocol/run.ts'

export interface PullReadResult {
  readonly state: PullState
  readonly talk: Result<PullDiscussion>
}

export interface RemarkRules {
  /** Keys of the remarks that earlier follow-ups received, when they are known. */
  readonly answered: ReadonlySet<string> | undefined
  readonly orders: RepoMapping['orders']
}

export async function readPull(
  pulls: PullRequestApi,
  place: PullReference,
  url: string,
  { answered, orders }: RemarkRules,
): Promise<Result<PullReadResult>> {
  const [detail, origin] = await Promise.all([pulls.detail(place), pulls.branches(place)])
  if (!detail.ok) return detail
  // The origin of a merged or closed pull request is not needed.
  const { state } = detail.value
  if (state === 'merged' || state === 'closed') return yes({ state, talk: PULL_OVER })
  return origin.ok
    ? yes({ state, talk: readDiscussion(url, detail.value, origin.value, answered, orders) })
    : origin
}

const PULL_OVER = no('conflict', 'its pull request is over')

/** A code host and a bucket in memory, whose contents and refusals a test sets. */
import type { Bucket, BucketState, UploadRequest } from '../../core/ports/bucket.ts'
import type {
  PullBranches,
  PullDetailFacts,
  PullFacts,
  PullIdentity,
  PullReference,
  PullRequestApi,
} from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { PullComment } from '../../protocol/pulls.ts'
import type { PullState } from '../../protocol/run.ts'

const AT = '2026-01-01T00:00:00.000Z'
const SITE = 'https://codehost.example'

export const manualPullUrl = (remote: string, number: number): string => `${SITE}/${remote}/pull/${number}`

/** The branch of a run on ENG-1. */
const RUN_BRANCH = 'switchyard/eng-1'

export interface ManualPullOrigin {
  readonly branch?: string
  readonly headRemote?: string
  readonly body?: string
}

export class ManualPullRequests implements PullRequestApi {
  /** The state of each pull request by URL. */
  readonly pulls = new Map<string, PullState>()
  /** Where pull requests come from, by URL; the others are of the branch of ENG-1, and have no marker. */
  readonly origins = new Map<string, ManualPullOrigin>()
  readonly comments: string[] = []
  /** Requests in order, such as `states owner/name 1,2 background`. */
  requests: string[] = []
  /** When set, every request returns this refusal. */
  refusal: Result<never> | undefined

  async repos() {
    return this.refusal ?? yes([])
  }

  async list(remote: string, urgency: string): Promise<Result<readonly PullFacts[]>> {
    this.requests.push(`list ${remote} ${urgency}`)
    return this.refusal ?? yes(this.#of(remote).map(([number, state]) => factsOf(remote, number, state)))
  }

  async detail({ remote, number }: PullReference): Promise<Result<PullDetailFacts>> {
    const state = this.pulls.get(manualPullUrl(remote, number))
    if (this.refusal !== undefined) return this.refusal
    if (state === undefined) return no('unknown', 'there is no such pull request')
    const comments = this.comments.map(
      (body, index): PullComment => ({
        id: String(index),
        author: 'switchyard',
        body,
        createdAt: AT,
        url: SITE,
      }),
    )
    return yes({
      ...factsOf(remote, number, state),
      body: '',
      draft: state === 'draft',
      headSha: 'abc',
      additions: 0,
      deletions: 0,
      changedFiles: 0,
      conversation: { comments, reviews: [], threads: [] },
      files: [],
      commits: [],
      checks: [],
    })
  }

  async branches({ remote, number }: PullReference): Promise<Result<PullBranches>> {
    return (
      this.refusal ??
      yes({ headRemote: remote, headBranch: `branch-${number}`, headSha: 'abc', baseBranch: 'main' })
    )
  }

  async identity({ remote, number }: PullReference): Promise<Result<PullIdentity>> {
    this.requests.push(`identity ${remote} ${number}`)
    if (this.refusal !== undefined) return this.refusal
    const url = manualPullUrl(remote, number)
    const state = this.pulls.get(url)
    if (state === undefined) return no('unknown', 'there is no such pull request')
    const { branch = RUN_BRANCH, body = '', headRemote = remote } = this.origins.get(url) ?? {}
    return yes({ headRemote, headBranch: branch, headSha: 'abc', baseBranch: 'main', url, state, body })
  }

  async states(remote: string, numbers: readonly number[], urgency: string) {
    this.requests.push(`states ${remote} ${numbers.join()} ${urgency}`)
    if (this.refusal !== undefined) return this.refusal
    const known = this.#of(remote).filter(([number]) => numbers.includes(number))
    return yes(new Map(known))
  }

  async merge(place: PullReference): Promise<Result<string>> {
    const done = this.#changeState(place, ['open'], 'merged')
    return done.ok ? yes('merged it') : done
  }

  async close(place: PullReference) {
    return this.#changeState(place, ['open', 'draft'], 'closed')
  }

  async reopen(place: PullReference) {
    return this.#changeState(place, ['closed'], 'open')
  }

  async markReady(place: PullReference) {
    return this.#changeState(place, ['draft'], 'open')
  }

  async comment(_: PullReference, body: string): Promise<Result<void>> {
    if (this.refusal !== undefined) return this.refusal
    this.comments.push(body)
    return yes(undefined)
  }

  async review() {
    return this.refusal ?? yes(undefined)
  }

  async reply() {
    return this.refusal ?? yes(undefined)
  }

  async resolveThread() {
    return this.refusal ?? yes(undefined)
  }

  parseUrl(url: string): PullReference | undefined {
    const found = /^https:\/\/codehost\.example\/([^/]+\/[^/]+)\/pull\/(\d+)$/.exec(url)
    return found?.[1] === undefined ? undefined : { remote: found[1], number: Number(found[2]) }
  }

  #of(remote: string): (readonly [number, PullState])[] {
    return [...this.pulls].flatMap(([url, state]) => {
      const place = this.parseUrl(url)
      return place?.remote === remote ? [[place.number, state] as const] : []
    })
  }

  #changeState({ remote, number }: PullReference, from: readonly PullState[], to: PullState): Result<void> {
    const url = manualPullUrl(remote, number)
    const state = this.pulls.get(url)
    if (this.refusal !== undefined) return this.refusal
    if (state === undefined) return no('unknown', 'there is no such pull request')
    if (!from.includes(state)) return no('conflict', `the pull request is ${state}`)
    this.pulls.set(url, to)
    return yes(undefined)
  }
}

function factsOf(remote: string, number: number, state: PullState): PullFacts {
  return {
    number,
    url: manualPullUrl(remote, number),
    title: `Pull request ${number}`,
    state,
    author: 'ada',
    baseBranch: 'main',
    headBranch: `branch-${number}`,
    createdAt: AT,
    updatedAt: AT,
  }
}

export class ManualBucket implements Bucket {
  state: BucketState = { installed: true, loggedIn: true, account: 'Dev' }
  readonly uploads: string[] = []
  refusal: Result<never> | undefined

  async status() {
    return this.state
  }

  async check() {
    return yes('Dev')
  }

  async login() {
    return yes('open the page')
  }

  async upload({ bucket, key, contentType, read }: UploadRequest): Promise<Result<void>> {
    const parts: Uint8Array[] = []
    for await (const part of read()) parts.push(part)
    if (this.refusal !== undefined) return this.refusal
    this.uploads.push(`${bucket} ${key} ${contentType} ${Buffer.concat(parts)}`)
    return yes(undefined)
  }

  stop(): void {}
}

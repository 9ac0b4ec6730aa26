/**
 * The ports of the code host: what a run needs of it, and the pull requests that people work with.
 *
 * A refusal's kind tells what to do: `unauthorized` means the provider rejects the credential, `unavailable` is
 * temporary (rate limit, outage), `unknown` means the thing does not exist, `conflict` means it is not possible in this
 * state. No result and no refusal contains a credential that it does not need.
 */
import type {
  CodehostRepo,
  MergeRequest,
  PullDetail,
  PullSummary,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../protocol/pulls.ts'
import type { PullState } from '../../protocol/run.ts'
import type { Result } from '../result.ts'

// ---- for a run ------------------------------------------------------------------------------------------------------

/** The facts about a pull request that a run needs. */
export interface OpenPullRequest {
  readonly number: number
  readonly url: string
  readonly state: 'open' | 'draft'
}

export interface NewPullRequest {
  /** The repository as owner/name. */
  readonly remote: string
  readonly head: string
  readonly base: string
  readonly title: string
  /** The text ends with a marker inside an HTML comment, which people do not see. */
  readonly body: string
  readonly draft: boolean
}

/** The code host where a run's work is published. The driver holds its own credential, and no result contains it. */
export interface CodeHost {
  /** Returns the address, without a credential, that git clones from, fetches from and pushes to. */
  gitAddress(remote: string): string
  /** Returns the open pull request of this head branch, no matter who opened it. */
  findPull(remote: string, head: string, base: string): Promise<Result<OpenPullRequest | undefined>>
  /** Opens a pull request. */
  openPull(request: NewPullRequest): Promise<Result<OpenPullRequest>>
  /** Tells whether a comment in the pull request's conversation contains this text. */
  hasComment(remote: string, number: number, text: string): Promise<Result<boolean>>
  /** Adds a comment to the pull request's conversation. */
  comment(remote: string, number: number, body: string): Promise<Result<void>>
  /**
   * Keeps the first comment that ends with this text, deletes later ones of the same author, and returns how many
   * were deleted.
   */
  dropRepeats(remote: string, number: number, text: string): Promise<Result<number>>
}

// ---- for people -----------------------------------------------------------------------------------------------------

/**
 * Tells whether a person waits for the request. Background requests yield to others and stop before a rate limit is
 * used up.
 */
export type Urgency = 'person' | 'background'

/** A pull request as the code host reports it, without the repository's configuration key. */
export type PullFacts = Omit<PullSummary, 'repo' | 'remote' | 'run'>
export type PullDetailFacts = Omit<PullDetail, 'repo' | 'remote'>

/** The address of one pull request. */
export interface PullReference {
  /** owner/name */
  readonly remote: string
  readonly number: number
}

/** The branches of a pull request. For a fork the head repository differs from the base repository. */
export interface PullBranches {
  /** The head repository as owner/name; undefined when that repository no longer exists. */
  readonly headRemote: string | undefined
  readonly headBranch: string
  readonly headSha: string
  readonly baseBranch: string
}

/** The facts that tell whose pull request it is. */
export interface PullIdentity extends PullBranches {
  /** The address of the pull request, as the code host writes it. */
  readonly url: string
  readonly state: PullState
  /** The description, in which the run that opened the pull request has left its marker. */
  readonly body: string
}

/**
 * The pull request operations that people use, and that the host uses on their behalf. The driver holds its own
 * credential.
 */
export interface PullRequestApi {
  /** Lists the repositories that the account can reach, most recently pushed first. */
  repos(): Promise<Result<readonly CodehostRepo[]>>
  /** Lists every open pull request and the newest closed ones, newest activity first. */
  list(remote: string, urgency: Urgency): Promise<Result<readonly PullFacts[]>>
  /** Returns one pull request with its conversation, files, commits and checks. */
  detail(pull: PullReference): Promise<Result<PullDetailFacts>>
  /** Returns the branches of a pull request. */
  branches(pull: PullReference): Promise<Result<PullBranches>>
  /** Returns the facts that tell whose pull request it is. */
  identity(pull: PullReference): Promise<Result<PullIdentity>>
  /** Returns the state of each pull request; leaves out those that do not exist. */
  states(
    remote: string,
    numbers: readonly number[],
    urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>>
  /**
   * Merges a pull request and returns the code host's message about it.
   *
   * @param seenSha the last commit that the person has seen; with another the merge is refused
   */
  merge(pull: PullReference, method: MergeRequest['method'], seenSha?: string): Promise<Result<string>>
  /** Closes a pull request without merging it. */
  close(pull: PullReference): Promise<Result<void>>
  /** Opens a closed pull request again. */
  reopen(pull: PullReference): Promise<Result<void>>
  /** Takes a pull request out of draft. */
  markReady(pull: PullReference): Promise<Result<void>>
  /** Adds a comment to the conversation. */
  comment(pull: PullReference, body: string): Promise<Result<void>>
  /** Submits a review. A comment on a line outside the diff is `invalid`, and then nothing is recorded. */
  review(pull: PullReference, review: ReviewRequest): Promise<Result<void>>
  /** Replies to a review comment in its thread. */
  reply(pull: PullReference, reply: ReplyRequest): Promise<Result<void>>
  /** Marks a review thread resolved or open. */
  resolveThread(pull: PullReference, request: ResolveThreadRequest): Promise<Result<void>>
  /** Returns the pull request that this URL points to; undefined for a URL of another kind or another code host. */
  parseUrl(url: string): PullReference | undefined
}

/**
 * The interfaces through which the host reaches pull requests, accounts and the bucket, as types only.
 *
 * `providers/` implements these ports and `bin/` connects them. A refusal's kind tells what to do: `unauthorized`
 * means the provider rejects the credential, `unavailable` is temporary (rate limit, outage), `unknown` means the
 * thing does not exist, `conflict` means it is not possible in this state. No result and no refusal contains a
 * credential that it does not need.
 */
import type { AgentCredentialField, AgentProvider } from '../protocol/agents/registry.ts'
import type { ServiceConfig } from '../protocol/config.ts'
import type { ConnectProvider } from '../protocol/connect.ts'
import type {
  CodehostRepo,
  MergeRequest,
  PullDetail,
  PullSummary,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../protocol/pulls.ts'
import type { PullState } from '../protocol/run.ts'
import type { Result } from './result.ts'

/**
 * Tells whether a person waits for the request. Background requests yield to others and stop before a rate limit is
 * used up.
 */
export type Urgency = 'person' | 'background'

// ---- pull requests -----------------------------------------------------------------------------------------------

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
  /** Merges a pull request and returns the code host's message about it. */
  /** @param seenSha the last commit that the person has seen; with another the merge is refused */
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

// ---- accounts ----------------------------------------------------------------------------------------------------

/** The tokens of a tracker authorization. */
export interface TokenPair {
  readonly accessToken: string
  /** Absent when the current refresh token stays valid. */
  readonly refreshToken?: string
  /** The instant at which the access token expires; absent when it does not expire. */
  readonly expiresAt?: string
}

/** The start of an authorization by redirect: the URL for the browser and the secret that only the host knows. */
export interface RedirectAuthorization {
  readonly url: string
  /** The PKCE code verifier; absent when the OAuth helper exchanges the code. */
  readonly verifier?: string
}

/** The start of an OAuth device flow (RFC 8628). */
export interface DeviceAuthorization {
  /** A secret: whoever has it can poll for the token. */
  readonly deviceCode: string
  readonly userCode: string
  readonly verificationUri: string
  readonly intervalSeconds: number
  readonly expiresInSeconds: number
}

export type DevicePollResult =
  | { readonly is: 'token'; readonly token: string }
  /**
   * `intervalSeconds`: the poll interval from now on. `isTooFast`: the last poll came too early, and the provider did
   * not name an interval.
   */
  | { readonly is: 'pending'; readonly intervalSeconds?: number; readonly isTooFast?: true }
  /** The device code is no longer valid. The reason says why, and what to do. */
  | { readonly is: 'over'; readonly reason: string }

/** The credential fields of the configuration that a connect flow may write. */
export interface CredentialChange {
  readonly tracker?: {
    readonly apiKey?: string | null
    readonly refreshToken?: string | null
    readonly tokenExpiresAt?: string | null
  }
  readonly codehost?: { readonly token?: string | null }
  readonly storage?: { readonly token?: string | null }
  readonly agent?: Readonly<Partial<Record<AgentCredentialField, string | null>>>
}

/** An agent login that was found on this machine. */
export interface FoundLogin {
  /** A description for the person: whose login it is, and of what kind. */
  readonly detail: string
  readonly credential: NonNullable<CredentialChange['agent']>
}

/**
 * The providers that issue credentials.
 *
 * Every method receives the whole configuration, which names the provider, its address and the client ids. A
 * credential to be checked stands at its place in that configuration.
 */
export interface Accounts {
  /**
   * Starts an authorization by redirect. Refuses with `invalid` when the tracker accepts only a key entered by hand.
   */
  authorizeTracker(
    config: ServiceConfig,
    request: { readonly state: string; readonly port: number },
  ): Result<RedirectAuthorization>
  exchangeTrackerCode(
    config: ServiceConfig,
    request: { readonly code: string; readonly port: number; readonly verifier?: string },
  ): Promise<Result<TokenPair>>
  /** Exchanges the refresh token. Refuses with `unauthorized` only when the refresh token is permanently invalid. */
  refreshTrackerToken(config: ServiceConfig, refreshToken: string): Promise<Result<TokenPair>>
  /** Checks the credential `tracker.apiKey` and returns the name of its owner. */
  checkTracker(config: ServiceConfig): Promise<Result<string>>

  /** Starts a device flow. Refuses with `invalid` when the code host accepts only a token entered by hand. */
  startDevice(config: ServiceConfig): Promise<Result<DeviceAuthorization>>
  /** Polls a device flow once. A refusal means that the provider could not be reached now. */
  pollDevice(config: ServiceConfig, deviceCode: string): Promise<Result<DevicePollResult>>
  checkCodehost(config: ServiceConfig): Promise<Result<string>>

  /** Checks the agent key at its place in the configuration. */
  checkAgent(
    config: ServiceConfig,
    provider: Extract<ConnectProvider, AgentProvider>,
  ): Promise<Result<string>>
  /** Finds an agent login on this machine. The refusal tells the person whether to enter a key or to log in first. */
  findAgentLogin(provider: AgentProvider): Promise<Result<FoundLogin>>
}

// ---- the bucket --------------------------------------------------------------------------------------------------

export interface BucketState {
  /** The bucket's command-line program is installed. */
  readonly installed: boolean
  readonly loggedIn: boolean
  readonly account?: string
}

export interface UploadRequest {
  readonly bucket: string
  /** The object key: segments joined by `/`. */
  readonly key: string
  readonly contentType: string
  readonly size: number
  readonly token?: string
  read(): AsyncIterable<Uint8Array>
}

export interface Bucket {
  /** @param token in place of the login of the bucket's program, here as in an upload */
  status(token?: string): Promise<BucketState>
  /** Checks a token and returns the name of its account. */
  check(token: string): Promise<Result<string>>
  /** Starts the login of the bucket's program, one at a time, and returns what the person must do. */
  login(): Promise<Result<string>>
  /** Uploads one file. Refuses with `invalid` when a retry is pointless. */
  upload(request: UploadRequest): Promise<Result<void>>
  /** Ends all programs that this object started. */
  stop(): void
}

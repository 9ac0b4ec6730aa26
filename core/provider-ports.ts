/**
 * What the host asks of its neighbours, as types only: the code host's pull requests, accounts and their credentials,
 * the bucket.
 *
 * `providers/` satisfies these and `bin/` introduces them. A refusal's kind says what follows: `unauthorized` is a
 * credential that its provider does not take, `unavailable` passes by itself (too many requests, an outage), `unknown`
 * is not there, `conflict` not possible in this state. No answer and no refusal carries a credential that it need not.
 */
import type { AgentProvider, ServiceConfig } from '../protocol/config.ts'
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

/** Who waits: a person who clicked, or nobody. What nobody waits for gives way, and stops before a quota is gone. */
export type Urgency = 'person' | 'background'

// ---- pull requests -----------------------------------------------------------------------------------------------

/** A code host does not know by which key a repository is configured here. */
export type PullFacts = Omit<PullSummary, 'repo' | 'remote'>
export type PullDetailFacts = Omit<PullDetail, 'repo' | 'remote'>

export interface PullReference {
  /** owner/name */
  readonly remote: string
  readonly number: number
}

/** Where a pull request's branch really lies: of a fork it is another repository. */
export interface PullBranches {
  /** owner/name; undefined when the repository is gone. */
  readonly headRemote: string | undefined
  readonly headBranch: string
  readonly headSha: string
  readonly baseBranch: string
}

/** The code host as people use it, and the host on their behalf. A driver holds its own credential. */
export interface PullRequestApi {
  /** Those that the account can reach, most recently pushed first. */
  repos(): Promise<Result<readonly CodehostRepo[]>>
  /** Every open one and the newest of the others, newest activity first. */
  list(remote: string, urgency: Urgency): Promise<Result<readonly PullFacts[]>>
  detail(place: PullReference): Promise<Result<PullDetailFacts>>
  branches(place: PullReference): Promise<Result<PullBranches>>
  /** One that is not there is left out. */
  states(
    remote: string,
    numbers: readonly number[],
    urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>>
  /** Answers the code host's own sentence about it. */
  merge(place: PullReference, method: MergeRequest['method']): Promise<Result<string>>
  close(place: PullReference): Promise<Result<void>>
  reopen(place: PullReference): Promise<Result<void>>
  markReady(place: PullReference): Promise<Result<void>>
  comment(place: PullReference, body: string): Promise<Result<void>>
  review(place: PullReference, review: ReviewRequest): Promise<Result<void>>
  reply(place: PullReference, reply: ReplyRequest): Promise<Result<void>>
  resolveThread(place: PullReference, request: ResolveThreadRequest): Promise<Result<void>>
  /** Of which pull request this is the address; undefined when it is none of this code host's. */
  parseUrl(url: string): PullReference | undefined
}

// ---- accounts ----------------------------------------------------------------------------------------------------

/** What a tracker's authorization is good for. */
export interface TokenPair {
  readonly accessToken: string
  /** Absent: the one in use stays good. */
  readonly refreshToken?: string
  /** An instant; absent when it does not run out. */
  readonly expiresAt?: string
}

/** Where the browser goes, and what only we know of the journey. */
export interface RedirectAuthorization {
  readonly url: string
  /** Of PKCE; absent where the helper exchanges the code. */
  readonly verifier?: string
}

export interface DeviceAuthorization {
  /** A secret. */
  readonly deviceCode: string
  readonly userCode: string
  readonly verificationUri: string
  readonly intervalSeconds: number
  readonly expiresInSeconds: number
}

export type DevicePollResult =
  | { readonly is: 'token'; readonly token: string }
  /** `intervalSeconds`: from now on. `isTooFast`: it was asked too often, and does not say how often it may be. */
  | { readonly is: 'pending'; readonly intervalSeconds?: number; readonly isTooFast?: true }
  /** The code is dead; the sentence says why, and what to do. */
  | { readonly is: 'over'; readonly reason: string }

/** The credential fields of the configuration that a flow may write, below their sections. */
export interface CredentialChange {
  readonly tracker?: {
    readonly apiKey?: string | null
    readonly refreshToken?: string | null
    readonly tokenExpiresAt?: string | null
  }
  readonly codehost?: { readonly token?: string | null }
  readonly agent?: Readonly<
    Partial<
      Record<
        'agentAApiKey' | 'agentAOauthToken' | 'agentBApiKey' | 'agentBLogin' | 'agentCApiKey' | 'agentCLogin',
        string | null
      >
    >
  >
}

/** A login that was found on this machine. */
export interface FoundLogin {
  /** For the person: whose it is, what kind. */
  readonly detail: string
  readonly credential: NonNullable<CredentialChange['agent']>
}

/**
 * Everybody who gives out credentials. Configurations come in whole: they say which provider, at which address, with
 * which client ids; a credential to be checked is in its place in them.
 */
export interface Accounts {
  /** Refused (`invalid`, with the reason for a person) where only a key given by hand is possible. */
  authorizeTracker(
    config: ServiceConfig,
    request: { readonly state: string; readonly port: number },
  ): Result<RedirectAuthorization>
  exchangeTrackerCode(
    config: ServiceConfig,
    request: { readonly code: string; readonly port: number; readonly verifier?: string },
  ): Promise<Result<TokenPair>>
  /** Refused as `unauthorized` only when the refresh token is dead for good; all else passes. */
  refreshTrackerToken(config: ServiceConfig, refreshToken: string): Promise<Result<TokenPair>>
  /** Answers whose credential `tracker.apiKey` is, for people. */
  checkTracker(config: ServiceConfig): Promise<Result<string>>

  /** Refused (`invalid`) where only a token given by hand is possible. */
  startDevice(config: ServiceConfig): Promise<Result<DeviceAuthorization>>
  /** Refused: nobody could be asked just now. */
  pollDevice(config: ServiceConfig, deviceCode: string): Promise<Result<DevicePollResult>>
  checkCodehost(config: ServiceConfig): Promise<Result<string>>

  /** Whether a key works; the key is in its place in the configuration. */
  checkAgent(
    config: ServiceConfig,
    provider: Extract<ConnectProvider, AgentProvider>,
  ): Promise<Result<string>>
  /** Refused with the reason for which the person has to give a key, or log in first. */
  findAgentLogin(provider: AgentProvider): Promise<Result<FoundLogin>>
}

// ---- the bucket --------------------------------------------------------------------------------------------------

export interface BucketState {
  /** Its command is there. */
  readonly installed: boolean
  readonly loggedIn: boolean
  readonly account?: string
}

export interface UploadRequest {
  readonly bucket: string
  /** Segments joined by `/`. */
  readonly key: string
  readonly contentType: string
  readonly size: number
  read(): AsyncIterable<Uint8Array>
}

export interface Bucket {
  status(): Promise<BucketState>
  /** Starts the command's own login; one at a time. Answers what the person is to do. */
  login(): Promise<Result<string>>
  /** Refused as `invalid` when asking again is pointless. */
  upload(request: UploadRequest): Promise<Result<void>>
  /** Ends what it started. */
  stop(): void
}

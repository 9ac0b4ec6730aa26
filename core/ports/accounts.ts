/**
 * The port of the providers that issue and check credentials, as `providers/accounts/` implements it.
 *
 * The kinds of its refusals are those of `code-host.ts`.
 */
import type { AgentCredentialField, AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectProvider } from '../../protocol/connect.ts'
import type { Result } from '../result.ts'

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

/**
 * Rules of the tracker's client: which changes of the configuration need another client or another listing, when its
 * access token is refreshed and has expired, and which new pair of tokens is not on disk yet.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { TRACKER_FACTS } from '../../protocol/drivers.ts'
import { backoffMs } from '../backoff.ts'
import type { TokenPair } from '../ports/accounts.ts'
import type { Result } from '../result.ts'
import { trackerAddress } from '../settings/credential-origins.ts'

type TokenSettings = Pick<ServiceConfig['tracker'], 'apiKey' | 'refreshToken' | 'tokenExpiresAt'>

// ---- the client --------------------------------------------------------------------------------------------------

/** The settings that a client was made for, as texts to compare. */
export interface TrackerIdentity {
  readonly settings: string
  readonly credential: string
  /** The tickets are here: a new credential, or another interval of the polls, leaves the tracker in its place. */
  readonly place: string
}

type TrackerKey = keyof ServiceConfig['tracker']

const CREDENTIAL: readonly TrackerKey[] = ['apiKey', 'refreshToken', 'tokenExpiresAt']
/** The host itself reads these with each listing and each move. */
const OF_HOST: readonly TrackerKey[] = [
  'eligible',
  'startedState',
  'reviewState',
  'doneState',
  'releasedState',
  'whenTicketLeaves',
]

/** Every other setting is the client's, so that a driver's own ones are missed by nobody. */
export function identifyTracker(config: ServiceConfig): TrackerIdentity {
  const own = Object.entries(config.tracker).sort(([a], [b]) => (a < b ? -1 : 1))
  const except = (keys: readonly string[]) => own.filter(([key]) => !keys.includes(key))
  const settings = except([...CREDENTIAL, ...OF_HOST])
  return {
    settings: JSON.stringify([settings, issueSettings(config)]),
    credential: JSON.stringify(CREDENTIAL.map((key) => config.tracker[key])),
    place: JSON.stringify([
      except([...CREDENTIAL, ...OF_HOST, 'apiUrl', 'pollSeconds']),
      trackerAddress(config),
    ]),
  }
}

/**
 * Settings outside the client's own that decide which tickets it lists and in which states they are. Where issues of
 * the repositories are tickets, repositories, code host account and the host's own target states all matter.
 */
function issueSettings({ tracker, repos, codehost }: ServiceConfig): unknown {
  const { startedState, reviewState, doneState, releasedState } = tracker
  const { listsRepositoryIssues } = TRACKER_FACTS[tracker.driver]
  return listsRepositoryIssues ? [repos, codehost, startedState, reviewState, doneState, releasedState] : []
}

// ---- the times of the access token -------------------------------------------------------------------------------

/** Time before its expiry at which a token is refreshed. */
const TOKEN_REFRESH_AHEAD_MS = 5 * 60_000
const TOKEN_REFRESH_RETRY_MS_FIRST = 5_000
const TOKEN_REFRESH_RETRY_MS_MAX = 5 * 60_000

export const isRefreshable = ({ refreshToken }: TokenSettings): boolean =>
  refreshToken !== undefined && refreshToken !== ''

/** When the token should be refreshed, in wall clock milliseconds; null when it is not refreshed or does not expire. */
export function refreshAt(tracker: TokenSettings): number | null {
  const expiresAt = Date.parse(tracker.tokenExpiresAt ?? '')
  return isRefreshable(tracker) && !Number.isNaN(expiresAt) ? expiresAt - TOKEN_REFRESH_AHEAD_MS : null
}

/** For a token that was just issued. A token that lives shorter than the lead time must not cause a refresh loop. */
export function nextRefreshAt(tracker: TokenSettings, now: number): number | null {
  const at = refreshAt(tracker)
  if (at === null) return null
  const halfRemainingMs = (at + TOKEN_REFRESH_AHEAD_MS - now) / 2
  return Math.max(at, now + Math.max(halfRemainingMs, TOKEN_REFRESH_RETRY_MS_FIRST))
}

/** A token that was just issued is used whatever its expiry says, or two clocks that differ would cause a refresh loop. */
export function isTokenExpired(tracker: TokenSettings, now: number, issuedAgoMs: number): boolean {
  const { apiKey = '', tokenExpiresAt = '' } = tracker
  return apiKey !== '' && issuedAgoMs >= TOKEN_REFRESH_RETRY_MS_FIRST && now >= Date.parse(tokenExpiresAt)
}

/** Whether a refreshable token is known to be usable still. */
export function isTokenValid(tracker: TokenSettings, now: number): boolean {
  const at = refreshAt(tracker)
  return at !== null && now < at + TOKEN_REFRESH_AHEAD_MS
}

/** @param roll a random number from 0 to 1 */
export const refreshRetryMs = (failures: number, roll: number): number =>
  backoffMs(failures, TOKEN_REFRESH_RETRY_MS_FIRST, TOKEN_REFRESH_RETRY_MS_MAX, roll)

// ---- new tokens --------------------------------------------------------------------------------------------------

/** The latest pair of tokens that this process was issued. */
export interface IssuedTokens {
  readonly pair: TokenPair
  /** The refresh token that was exchanged for the pair, and is used up. */
  readonly usedRefreshToken: string
  /** In monotonic milliseconds. */
  readonly at: number
  /** `unsaved`: saving failed for now. `settled`: the pair is on disk, or a person has connected another account. */
  readonly state: 'saving' | 'unsaved' | 'settled'
}

/** @param saved how saving the pair ended; `conflict` means that a person was faster */
export function settleTokens(
  issued: IssuedTokens | undefined,
  saved?: Result<void>,
): IssuedTokens | undefined {
  const isUnsaved = saved?.ok === false && saved.refusal.kind !== 'conflict'
  return issued && { ...issued, state: isUnsaved ? 'unsaved' : 'settled' }
}

/**
 * TrackerConnection sends the host's requests to the tracker and keeps its access token valid.
 *
 * A request that the tracker refuses waits for the one refresh that follows, together with all others, and is then sent
 * once more. No request is sent with an expired token. A new pair of tokens is on disk before it is used, because issuing
 * it may invalidate the old pair. A pair that cannot be saved is kept in memory and saved later, instead of asking for
 * another one.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Tracker } from '../../core/ports.ts'
import type { Accounts, CredentialChange, TokenPair } from '../../core/provider-ports.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { trackerAddress } from '../../core/settings/credential-origins.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TRACKER_FACTS } from '../../protocol/drivers.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { HostContext } from '../host-context.ts'
import type {
  TrackerConnectionContext,
  TrackerConnectionEffect,
  TrackerConnectionEvent,
} from './tracker-connection.machine.ts'

/** Time limit for a tracker call; drivers give up on a single request much sooner. */
const TRACKER_ANSWER_MS_MAX = 120_000
/** Time before its expiry at which a tracker's token is refreshed. */
const TOKEN_REFRESH_AHEAD_MS = 5 * 60_000
const TOKEN_REFRESH_RETRY_MS_FIRST = 5_000
const TOKEN_REFRESH_RETRY_MS_MAX = 5 * 60_000

export interface TrackerConnectionPorts
  extends Pick<HostContext, 'clock' | 'random' | 'log' | 'config' | 'trackerFor'> {
  readonly refresh: Accounts['refreshTrackerToken']
  /** Resolves when the change is durable and in force; refused as `conflict` when `isStillWanted` answers false. */
  readonly save: (
    change: CredentialChange,
    isStillWanted: (config: ServiceConfig) => boolean,
  ) => Promise<Result<void>>
  readonly sendEvent: (event: TrackerConnectionEvent) => void
  /** The tracker was replaced or removed. `isAnother`: the known tickets came from another driver, address or folder. */
  readonly onTrackerReplaced: (tracker: Tracker | undefined, isAnother: boolean) => void
}

/** A new pair of tokens that is not on disk yet, and the refresh token that was exchanged for it. */
interface UnsavedTokens {
  readonly pair: TokenPair
  readonly usedRefreshToken: string
}

/** A refresh that is under way, and the refresh token that it uses up. */
interface RefreshInProgress {
  readonly usedRefreshToken: string
  readonly outcome: Promise<TrackerConnectionEvent>
}

/** Longest time that one timer waits; the rest is scheduled when it is due. */
const WAIT_MS_MAX = 60 * 60_000

export class TrackerConnection {
  readonly #ports: TrackerConnectionPorts
  #tracker: Tracker | undefined
  /** Increases with each credential, so that a late refusal of an earlier credential is ignored. */
  #clientGeneration = 0
  #trackerEpoch = 0
  /** Client generation that the tracker refused last. */
  #refusedGeneration = -1
  #settingsKey = ''
  /** The driver, address and folder of the tracker. */
  #place = ''
  #credentialKey: string | undefined
  #unsaved: UnsavedTokens | undefined
  /** When the current token was issued to this process, in monotonic milliseconds. */
  #issuedAt = Number.NEGATIVE_INFINITY
  /** Access token that is being saved: its arrival in the configuration is not a change made by a person. */
  #savingToken: string | undefined
  #refreshing: RefreshInProgress | undefined
  #waiting: (() => void)[] = []
  /** Why requests are refused at once: the credential is refused or has expired. */
  #refusal: Refused | undefined
  #timer: Cancel = () => {}

  constructor(ports: TrackerConnectionPorts) {
    this.#ports = ports
  }

  /** Increases with each tracker, so that callers can ignore answers of an earlier tracker. */
  get epoch(): number {
    return this.#trackerEpoch
  }

  get isConnected(): boolean {
    return this.#tracker !== undefined
  }

  /** Whether the tracker can link pull requests in its tickets. */
  get linksPulls(): boolean {
    return this.#tracker?.linkPull !== undefined
  }

  /** Whether the tracker has comments on its tickets. */
  get hasComments(): boolean {
    return this.#tracker?.comment !== undefined
  }

  // ---- the configuration -------------------------------------------------------------------------------------------

  /** Replaces the client when the tracker or its credential changed; other settings do not matter. */
  onConfigChange(): void {
    const { tracker } = this.#ports.config()
    const { apiKey, refreshToken, tokenExpiresAt, ...connection } = tracker
    const { eligible: _, startedState: __, reviewState: ___, ...others } = connection
    const { doneState: ____, releasedState: _____, whenTicketLeaves: ______, ...settings } = others
    const isOurs = apiKey !== undefined && apiKey === this.#savingToken
    const settingsKey = JSON.stringify([settings, issueSettings(this.#ports.config())])
    const credentialKey = JSON.stringify([apiKey, refreshToken, tokenExpiresAt])
    if (settingsKey === this.#settingsKey && credentialKey === this.#credentialKey) return
    const isReplaced = settingsKey !== this.#settingsKey
    this.#settingsKey = settingsKey
    this.#credentialKey = credentialKey
    this.#replaceClient(isReplaced || !isOurs)
    if (isOurs && !isReplaced) return
    // The refresh token that the pair was issued for is used up: while it is configured, only that pair is valid.
    if (this.#unsaved?.usedRefreshToken !== refreshToken) this.#unsaved = undefined
    this.#reportConfiguration(tracker)
  }

  /**
   * A person confirmed a credential. The credential may equal the refused one; then the configuration did not change.
   */
  onCredentialConfirmed(): void {
    if (this.#refusal?.refusal.kind !== 'unauthorized') return
    this.#replaceClient(false)
    this.#reportConfiguration(this.#ports.config().tracker)
  }

  #replaceClient(isReplaced: boolean): void {
    this.#clientGeneration += 1
    this.#tracker = this.#ports.trackerFor(this.#ports.config())
    if (!isReplaced) return
    this.#trackerEpoch += 1
    const before = this.#place
    this.#place = placeOf(this.#ports.config())
    this.#ports.onTrackerReplaced(this.#tracker, this.#place !== before)
  }

  #reportConfiguration({ pollSeconds, refreshToken }: ServiceConfig['tracker']): void {
    if (this.#tracker === undefined) {
      this.#ports.sendEvent({ type: 'unconfigured' })
      return
    }
    this.#ports.sendEvent({
      type: 'configured',
      pollMs: pollSeconds * 1000,
      refreshable: refreshToken !== undefined && refreshToken !== '',
      refreshAt: this.#refreshAt(),
      isExpired: this.#isExpired(),
    })
  }

  #refreshAt(): number | null {
    const expiresAt = this.#expiresAt()
    return expiresAt === undefined ? null : expiresAt - TOKEN_REFRESH_AHEAD_MS
  }

  /** For a token that was just issued. A token that lives shorter than the lead time must not cause a refresh loop. */
  #nextRefreshAt(): number | null {
    const expiresAt = this.#expiresAt()
    if (expiresAt === undefined) return null
    const now = this.#ports.clock.now()
    const halfRemainingMs = (expiresAt - now) / 2
    return Math.max(
      expiresAt - TOKEN_REFRESH_AHEAD_MS,
      now + Math.max(halfRemainingMs, TOKEN_REFRESH_RETRY_MS_FIRST),
    )
  }

  #expiresAt(): number | undefined {
    const { refreshToken, tokenExpiresAt } = this.#ports.config().tracker
    const at = Date.parse(tokenExpiresAt ?? '')
    return refreshToken === undefined || refreshToken === '' || Number.isNaN(at) ? undefined : at
  }

  /** A token that was just issued is used whatever its expiry says, or two clocks that differ would cause a refresh loop. */
  #isExpired(): boolean {
    const { clock, config } = this.#ports
    const { apiKey, tokenExpiresAt } = config().tracker
    if (apiKey === undefined || apiKey === '') return false
    const isNew = clock.monotonic() - this.#issuedAt < TOKEN_REFRESH_RETRY_MS_FIRST
    return !isNew && clock.now() >= Date.parse(tokenExpiresAt ?? '')
  }

  // ---- requests ----------------------------------------------------------------------------------------------------

  /** Sends a request. When the tracker refuses the credential, the request is sent once more with a new one. */
  async ask<T>(request: (tracker: Tracker) => Promise<Result<T>>): Promise<Result<T>> {
    if (this.#refusal !== undefined) return this.#refusal
    if (this.#tracker !== undefined && this.#isExpired()) {
      this.#ports.sendEvent({ type: 'expired' })
      return EXPIRED
    }
    const first = await this.#attempt(request)
    if (!isRefused(first.answer)) return first.answer
    if (first.generation === this.#clientGeneration) await this.#waitForRefresh(first)
    if (first.generation === this.#clientGeneration || this.#tracker === undefined) return first.answer
    const second = await this.#attempt(request)
    if (isRefused(second.answer)) this.#reportRefusal(second)
    return second.answer
  }

  async #attempt<T>(request: (tracker: Tracker) => Promise<Result<T>>): Promise<TrackerAttempt<T>> {
    const tracker = this.#tracker
    const generation = this.#clientGeneration
    const { clock, log } = this.#ports
    if (tracker === undefined) return { generation, answer: no('unavailable', NOT_CONNECTED) }
    try {
      return {
        generation,
        answer: await withTimeout(clock, TRACKER_ANSWER_MS_MAX, request(tracker), 'the tracker'),
      }
    } catch (error) {
      log.error({ err: error }, 'a request to the tracker failed')
      return { generation, answer: no('failed', 'the request to the tracker failed; the log says why') }
    }
  }

  /** Reports the outcome of a poll; the caller ignores polls of an earlier tracker. */
  reportAnswer(problem: string | undefined): void {
    this.#ports.sendEvent({ type: 'answered', problem: problem?.slice(0, TEXT_CHARS_MAX) ?? null })
  }

  #waitForRefresh(attempt: TrackerAttempt<unknown>): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#reportRefusal(attempt)
    })
  }

  #reportRefusal({ answer, generation }: TrackerAttempt<unknown>): void {
    if (answer.ok || generation !== this.#clientGeneration) return
    this.#refusedGeneration = generation
    this.#ports.sendEvent({ type: 'refused', problem: answer.refusal.message.slice(0, TEXT_CHARS_MAX) })
  }

  /** The tracker connection actor entered another state. */
  onStateChange(value: unknown): void {
    this.#refusal = refusalIn(topState(value))
    if (!isRefreshing(value)) this.#resumeWaiting()
  }

  /** Ends the waiting of all requests that were refused. */
  #resumeWaiting(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  // ---- refreshing --------------------------------------------------------------------------------------------------

  runEffect(effect: TrackerConnectionEffect): void {
    if (effect.type === 'tracker.resume waiting') {
      this.#resumeWaiting()
      return
    }
    this.#timer()
    if (effect.type === 'tracker.refresh') void this.#refreshOnce()
    else if (effect.type === 'tracker.schedule refresh') this.#scheduleRefresh(effect.at)
    else this.#retryAfter(this.#retryDelayMs(effect.failures))
  }

  /** Resolves when no refresh is under way. Stopping earlier would lose the new pair when the old one is used up. */
  async refreshSettled(): Promise<void> {
    await this.#refreshing?.outcome
  }

  stop(): void {
    this.#timer()
    this.#resumeWaiting()
  }

  /**
   * Refreshes at most once per refresh token, because a provider treats a token that is used twice as stolen. The actor
   * may be reconfigured during a refresh; the outcome of an earlier token must not be reported for the current one.
   */
  async #refreshOnce(): Promise<void> {
    const usedRefreshToken = this.#ports.config().tracker.refreshToken ?? ''
    const known = this.#refreshing
    const refreshing =
      known?.usedRefreshToken === usedRefreshToken
        ? known
        : { usedRefreshToken, outcome: this.#refresh(usedRefreshToken) }
    this.#refreshing = refreshing
    const event = await refreshing.outcome
    if (this.#refreshing !== refreshing) return
    this.#refreshing = undefined
    this.#ports.sendEvent(event)
  }

  async #refresh(usedRefreshToken: string): Promise<TrackerConnectionEvent> {
    const isStillValid = this.#isStillValid()
    try {
      const pair = await this.#newPair(usedRefreshToken)
      if (pair.ok) return await this.#save({ pair: pair.value, usedRefreshToken }, isStillValid)
      const { kind, message } = pair.refusal
      const problem = redactSecrets(message, [usedRefreshToken]).slice(0, TEXT_CHARS_MAX)
      if (kind === 'unauthorized') return { type: 'refresh denied', problem }
      return { type: 'refresh failed', problem, isStillValid }
    } catch (error) {
      this.#ports.log.error({ err: error }, 'the token of the tracker could not be refreshed')
      return {
        type: 'refresh failed',
        problem: 'the token could not be refreshed; the log says why',
        isStillValid,
      }
    }
  }

  /** Whether the current token was neither refused nor has expired. */
  #isStillValid(): boolean {
    const expiresAt = this.#expiresAt()
    return (
      this.#refusedGeneration !== this.#clientGeneration &&
      expiresAt !== undefined &&
      this.#ports.clock.now() < expiresAt
    )
  }

  async #newPair(usedRefreshToken: string): Promise<Result<TokenPair>> {
    if (this.#unsaved?.usedRefreshToken === usedRefreshToken) return yes(this.#unsaved.pair)
    const { clock, config, refresh } = this.#ports
    return withTimeout(clock, TRACKER_ANSWER_MS_MAX, refresh(config(), usedRefreshToken), 'the tracker')
  }

  async #save(unsaved: UnsavedTokens, isStillValid: boolean): Promise<TrackerConnectionEvent> {
    const { accessToken, refreshToken, expiresAt } = unsaved.pair
    this.#unsaved = unsaved
    this.#issuedAt = this.#ports.clock.monotonic()
    this.#savingToken = accessToken
    const change = {
      tracker: {
        apiKey: accessToken,
        tokenExpiresAt: expiresAt ?? null,
        ...(refreshToken === undefined ? {} : { refreshToken }),
      },
    }
    const saved = await this.#ports.save(
      change,
      ({ tracker }) => tracker.refreshToken === unsaved.usedRefreshToken,
    )
    this.#savingToken = undefined
    if (saved.ok || saved.refusal.kind === 'conflict') this.#unsaved = undefined
    if (saved.ok) return { type: 'refreshed', refreshAt: this.#nextRefreshAt() }
    return {
      type: 'refresh failed',
      problem: `the new token could not be saved: ${saved.refusal.message}`.slice(0, TEXT_CHARS_MAX),
      isStillValid,
    }
  }

  #scheduleRefresh(at: number | null): void {
    if (at === null) return
    const { clock } = this.#ports
    const waitMs = at - clock.now()
    if (waitMs <= 0) this.#ports.sendEvent({ type: 'refresh due' })
    else this.#timer = clock.after(Math.min(waitMs, WAIT_MS_MAX), () => this.#scheduleRefresh(at))
  }

  #retryAfter(ms: number): void {
    this.#timer = this.#ports.clock.after(ms, () => this.#ports.sendEvent({ type: 'refresh due' }))
  }

  #retryDelayMs(failures: number): number {
    const roll = this.#ports.random.fraction()
    return backoffMs(failures, TOKEN_REFRESH_RETRY_MS_FIRST, TOKEN_REFRESH_RETRY_MS_MAX, roll)
  }
}

interface TrackerAttempt<T> {
  readonly generation: number
  readonly answer: Result<T>
}

const NOT_CONNECTED = 'no tracker is connected; connect one, or set tracker in the configuration'

const isRefused = (answer: Result<unknown>): boolean => !answer.ok && answer.refusal.kind === 'unauthorized'

/**
 * Settings outside the tracker's own that decide which tickets it lists and in which states they are. Where issues of
 * the repositories are tickets, repositories, code host account and the host's own target states all matter.
 */
function issueSettings({ tracker, repos, codehost }: ServiceConfig): unknown {
  const { startedState, reviewState, doneState, releasedState } = tracker
  const { listsRepositoryIssues } = TRACKER_FACTS[tracker.driver]
  return listsRepositoryIssues ? [repos, codehost, startedState, reviewState, doneState, releasedState] : []
}

/** A new credential, or another interval of the polls, leaves the tracker where it is. */
function placeOf(config: ServiceConfig): string {
  const { driver, path } = config.tracker
  return JSON.stringify([driver, trackerAddress(config), path])
}

/** The status that people see. */
export function trackerStatusOf(value: unknown, { error }: TrackerConnectionContext): TrackerStatus {
  const state = topState(value)
  return error === null ? { state } : { state, error }
}

function topState(value: unknown): TrackerStatus['state'] {
  const state = typeof value === 'string' ? value : Object.keys(Object(value))[0]
  // The machine's top-level states are named like the status values.
  return state as TrackerStatus['state']
}

/** Why requests must not be sent in this state: a refused credential gets no answer and looks like an attack. */
function refusalIn(state: TrackerStatus['state']): Refused | undefined {
  if (state === 'auth-error') return no('unauthorized', CREDENTIAL_REFUSED)
  return state === 'refresh-failing' ? no('unavailable', REFRESH_FAILING) : undefined
}

const CREDENTIAL_REFUSED = 'the tracker refuses its credential; connect the tracker again'
const REFRESH_FAILING =
  'the token of the tracker has expired and cannot be refreshed just now; try again in a while'

const EXPIRED = no('unavailable', REFRESH_FAILING)

const isRefreshing = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).includes('refreshing')

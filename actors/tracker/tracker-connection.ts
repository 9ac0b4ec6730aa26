/**
 * TrackerConnection sends the host's requests to the tracker and keeps its access token valid.
 *
 * A request that the tracker refuses waits for the one refresh that follows, together with all others, and is then sent
 * once more. No request is sent with an expired token. A new pair of tokens is on disk before it is used, because issuing
 * it may invalidate the old pair. A pair that cannot be saved is kept in memory and saved later, instead of asking for
 * another one.
 */

import type { TokenPair } from '../../core/ports/accounts.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { Tracker } from '../../core/ports/tracker.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import {
  type IssuedTokens,
  identifyTracker,
  isRefreshable,
  isTokenExpired,
  isTokenValid,
  nextRefreshAt,
  refreshAt,
  refreshRetryMs,
  settleTokens,
  type TrackerIdentity,
} from '../../core/tickets/tracker-token.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { HostContext } from '../host-context.ts'
import type { ModuleViews } from '../runtime/module.ts'
import {
  TRACKER_CONNECTION,
  type TrackerConnectionContext,
  type TrackerConnectionEffect,
  type TrackerConnectionEvent,
} from './tracker-connection.machine.ts'

/** Time limit for a tracker call; drivers give up on a single request much sooner. */
const TRACKER_ANSWER_MS_MAX = 120_000

/** Called when the tracker was replaced or removed. `isAnother`: the known tickets came from another driver, address or folder. */
type OnTrackerReplaced = (tracker: Tracker | undefined, isAnother: boolean) => void

/** A client is replaced with its credential, so that a late refusal of an earlier credential is ignored. */
interface TrackerClient {
  readonly tracker: Tracker | undefined
  /** The tracker refused the credential. */
  isRefused: boolean
}

/** A refresh that is under way, and the refresh token that it uses up. */
interface RefreshInProgress {
  readonly usedRefreshToken: string
  readonly outcome: Promise<TrackerConnectionEvent>
}

/** Longest time that one timer waits; the rest is scheduled when it is due. */
const WAIT_MS_MAX = 60 * 60_000

export class TrackerConnection {
  readonly #context: HostContext
  readonly #settings: ModuleViews['settings']
  readonly #onTrackerReplaced: OnTrackerReplaced
  #client: TrackerClient = { tracker: undefined, isRefused: false }
  #epoch = 0
  #identity: TrackerIdentity | undefined
  #issued: IssuedTokens | undefined
  #refreshing: RefreshInProgress | undefined
  #waiting: (() => void)[] = []
  /** Why requests are refused at once: the credential is refused or has expired. */
  #refusal: Refused | undefined
  #timer: Cancel = () => {}

  constructor(context: HostContext, settings: ModuleViews['settings'], onTrackerReplaced: OnTrackerReplaced) {
    this.#context = context
    this.#settings = settings
    this.#onTrackerReplaced = onTrackerReplaced
  }

  /** Increases with each tracker, so that callers can ignore answers of an earlier tracker. */
  get epoch(): number {
    return this.#epoch
  }

  get isConnected(): boolean {
    return this.#client.tracker !== undefined
  }

  /** Whether the tracker can link pull requests in its tickets. */
  get linksPulls(): boolean {
    return this.#client.tracker?.linkPull !== undefined
  }

  /** Whether the tracker has comments on its tickets. */
  get hasComments(): boolean {
    return this.#client.tracker?.comment !== undefined
  }

  #send(event: TrackerConnectionEvent): void {
    this.#context.system.send(TRACKER_CONNECTION, TRACKER_CONNECTION, event)
  }

  // ---- the configuration -------------------------------------------------------------------------------------------

  /** Replaces the client when the tracker or its credential changed; other settings do not matter. */
  onConfigChange(): void {
    const config = this.#context.config()
    const before = this.#identity
    const identity = identifyTracker(config)
    const isReplaced = identity.settings !== before?.settings
    if (!isReplaced && identity.credential === before?.credential) return
    this.#identity = identity
    this.#replaceClient()
    const { apiKey, refreshToken } = config.tracker
    // The arrival of a pair that is being saved is not a change made by a person.
    const isOurs = this.#issued?.state === 'saving' && this.#issued.pair.accessToken === apiKey
    if (isOurs && !isReplaced) return
    this.#epoch += 1
    this.#onTrackerReplaced(this.#client.tracker, identity.place !== before?.place)
    // The refresh token that the pair was issued for is used up: while it is configured, only that pair is valid.
    if (this.#issued?.usedRefreshToken !== refreshToken) this.#issued = settleTokens(this.#issued)
    this.#reportConfiguration(config.tracker)
  }

  /**
   * A person confirmed a credential. The credential may equal the refused one; then the configuration did not change.
   */
  onCredentialConfirmed(): void {
    if (this.#refusal?.refusal.kind !== 'unauthorized') return
    this.#replaceClient()
    this.#reportConfiguration(this.#context.config().tracker)
  }

  #replaceClient(): void {
    this.#client = { tracker: this.#context.trackerFor(this.#context.config()), isRefused: false }
  }

  #reportConfiguration(tracker: ServiceConfig['tracker']): void {
    if (!this.isConnected) {
      this.#send({ type: 'unconfigured' })
      return
    }
    this.#send({
      type: 'configured',
      pollMs: tracker.pollSeconds * 1000,
      refreshable: isRefreshable(tracker),
      refreshAt: refreshAt(tracker),
      isExpired: this.#isExpired(),
    })
  }

  #isExpired(): boolean {
    const { clock, config } = this.#context
    const issuedAgoMs = clock.monotonic() - (this.#issued?.at ?? Number.NEGATIVE_INFINITY)
    return isTokenExpired(config().tracker, clock.now(), issuedAgoMs)
  }

  // ---- requests ----------------------------------------------------------------------------------------------------

  /** Sends a request. When the tracker refuses the credential, the request is sent once more with a new one. */
  async ask<T>(request: (tracker: Tracker) => Promise<Result<T>>): Promise<Result<T>> {
    if (this.#refusal !== undefined) return this.#refusal
    if (this.isConnected && this.#isExpired()) {
      this.#send({ type: 'expired' })
      return EXPIRED
    }
    const first = await this.#attempt(request)
    if (!isRefused(first.answer)) return first.answer
    if (first.client === this.#client) await this.#waitForRefresh(first)
    if (first.client === this.#client || !this.isConnected) return first.answer
    const second = await this.#attempt(request)
    if (isRefused(second.answer)) this.#reportRefusal(second)
    return second.answer
  }

  async #attempt<T>(request: (tracker: Tracker) => Promise<Result<T>>): Promise<TrackerAttempt<T>> {
    const client = this.#client
    const { clock, log } = this.#context
    if (client.tracker === undefined) return { client, answer: no('unavailable', NOT_CONNECTED) }
    try {
      const answer = request(client.tracker)
      return { client, answer: await withTimeout(clock, TRACKER_ANSWER_MS_MAX, answer, 'the tracker') }
    } catch (error) {
      log.error({ err: error }, 'a request to the tracker failed')
      return { client, answer: no('failed', 'the request to the tracker failed; the log says why') }
    }
  }

  /** Reports the outcome of a poll; the caller ignores polls of an earlier tracker. */
  reportAnswer(problem: string | undefined): void {
    this.#send({ type: 'answered', problem: problem?.slice(0, TEXT_CHARS_MAX) ?? null })
  }

  #waitForRefresh(attempt: TrackerAttempt<unknown>): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#reportRefusal(attempt)
    })
  }

  #reportRefusal({ answer, client }: TrackerAttempt<unknown>): void {
    if (answer.ok || client !== this.#client) return
    client.isRefused = true
    this.#send({ type: 'refused', problem: answer.refusal.message.slice(0, TEXT_CHARS_MAX) })
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
    else {
      const { clock, random } = this.#context
      const waitMs = refreshRetryMs(effect.failures, random.fraction())
      this.#timer = clock.after(waitMs, () => this.#send({ type: 'refresh due' }))
    }
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
    const usedRefreshToken = this.#context.config().tracker.refreshToken ?? ''
    const known = this.#refreshing
    const refreshing =
      known?.usedRefreshToken === usedRefreshToken
        ? known
        : { usedRefreshToken, outcome: this.#refresh(usedRefreshToken) }
    this.#refreshing = refreshing
    const event = await refreshing.outcome
    if (this.#refreshing !== refreshing) return
    this.#refreshing = undefined
    this.#send(event)
  }

  async #refresh(usedRefreshToken: string): Promise<TrackerConnectionEvent> {
    const { clock, config, log } = this.#context
    const isStillValid = !this.#client.isRefused && isTokenValid(config().tracker, clock.now())
    try {
      const pair = await this.#newPair(usedRefreshToken)
      if (pair.ok) return await this.#save(pair.value, usedRefreshToken, isStillValid)
      const { kind, message } = pair.refusal
      const problem = redactSecrets(message, [usedRefreshToken]).slice(0, TEXT_CHARS_MAX)
      if (kind === 'unauthorized') return { type: 'refresh denied', problem }
      return { type: 'refresh failed', problem, isStillValid }
    } catch (error) {
      log.error({ err: error }, 'the token of the tracker could not be refreshed')
      return {
        type: 'refresh failed',
        problem: 'the token could not be refreshed; the log says why',
        isStillValid,
      }
    }
  }

  async #newPair(usedRefreshToken: string): Promise<Result<TokenPair>> {
    const issued = this.#issued
    if (issued?.usedRefreshToken === usedRefreshToken && issued.state !== 'settled') return yes(issued.pair)
    const { clock, config, accounts } = this.#context
    const pair = accounts.refreshTrackerToken(config(), usedRefreshToken)
    return withTimeout(clock, TRACKER_ANSWER_MS_MAX, pair, 'the tracker')
  }

  async #save(
    pair: TokenPair,
    usedRefreshToken: string,
    isStillValid: boolean,
  ): Promise<TrackerConnectionEvent> {
    const { clock, config } = this.#context
    const { accessToken, refreshToken, expiresAt } = pair
    this.#issued = { pair, usedRefreshToken, at: clock.monotonic(), state: 'saving' }
    const change = {
      tracker: {
        apiKey: accessToken,
        tokenExpiresAt: expiresAt ?? null,
        ...(refreshToken === undefined ? {} : { refreshToken }),
      },
    }
    const saved = await this.#settings.saveCredentials(
      change,
      ({ tracker }) => tracker.refreshToken === usedRefreshToken,
    )
    this.#issued = settleTokens(this.#issued, saved)
    if (saved.ok) return { type: 'refreshed', refreshAt: nextRefreshAt(config().tracker, clock.now()) }
    return {
      type: 'refresh failed',
      problem: `the new token could not be saved: ${saved.refusal.message}`.slice(0, TEXT_CHARS_MAX),
      isStillValid,
    }
  }

  #scheduleRefresh(at: number | null): void {
    if (at === null) return
    const { clock } = this.#context
    const waitMs = at - clock.now()
    if (waitMs <= 0) this.#send({ type: 'refresh due' })
    else this.#timer = clock.after(Math.min(waitMs, WAIT_MS_MAX), () => this.#scheduleRefresh(at))
  }
}

interface TrackerAttempt<T> {
  readonly client: TrackerClient
  readonly answer: Result<T>
}

const NOT_CONNECTED = 'no tracker is connected; connect one, or set tracker in the configuration'

const isRefused = (answer: Result<unknown>): boolean => !answer.ok && answer.refusal.kind === 'unauthorized'

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

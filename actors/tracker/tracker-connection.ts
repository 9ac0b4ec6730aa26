/**
 * The tracker as everybody in here asks it, and the tokens that it takes.
 *
 * Whoever is refused waits, together with all others, for the one refresh that follows, and asks once more. A new
 * pair of tokens is on disk before it is used: the old one may be worthless from the moment in which the new one was
 * given out. While it can't be written it is kept, and written as soon as that works, rather than asked for again.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Clock, Log, RandomSource, Tracker } from '../../core/ports.ts'
import type { Accounts, CredentialChange, TokenPair } from '../../core/provider-ports.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  TEXT_CHARS_MAX,
  TOKEN_REFRESH_AHEAD_MS,
  TOKEN_REFRESH_RETRY_MS_FIRST,
  TOKEN_REFRESH_RETRY_MS_MAX,
  TRACKER_ANSWER_MS_MAX,
} from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type {
  TrackerConnectionContext,
  TrackerConnectionEffect,
  TrackerConnectionEvent,
} from './tracker-connection.machine.ts'

export interface TrackerConnectionPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly refresh: Accounts['refreshTrackerToken']
  /** Durable and told when it resolves; refused as `conflict` when `still` does not hold any more. */
  readonly save: (
    change: CredentialChange,
    still: (config: ServiceConfig) => boolean,
  ) => Promise<Result<void>>
  readonly sendEvent: (event: TrackerConnectionEvent) => void
  /** What is known of the tickets was another tracker's word. */
  readonly onTrackerReplaced: (tracker: Tracker | undefined) => void
}

/** A pair that is not on disk yet, and the refresh token that it was given for. */
interface UnsavedTokens {
  readonly pair: TokenPair
  readonly usedRefreshToken: string
}

/** Under way, and the refresh token that it uses up. */
interface RefreshInProgress {
  readonly usedRefreshToken: string
  readonly outcome: Promise<TrackerConnectionEvent>
}

/** Timers count at most so far; longer waits are looked at again. */
const WAIT_MS_MAX = 60 * 60_000

export class TrackerConnection {
  readonly #ports: TrackerConnectionPorts
  #tracker: Tracker | undefined
  /** Another one for each credential: a refusal of an earlier one is no news. */
  #clientGeneration = 0
  #trackerEpoch = 0
  /** The last one that was refused. */
  #refusedGeneration = -1
  #settingsKey = ''
  #credentialKey: string | undefined
  #unsaved: UnsavedTokens | undefined
  /** Of the pair that is being written: that it comes into force is no news from a person. */
  #savingToken: string | undefined
  #refreshing: RefreshInProgress | undefined
  #waiting: (() => void)[] = []
  /** Why nobody is asked just now: the credential is known to be dead, or has run out. */
  #refusal: Refused | undefined
  #timer: Cancel = () => {}

  constructor(ports: TrackerConnectionPorts) {
    this.#ports = ports
  }

  /** Another one for each tracker: what was asked of an earlier one is no news. */
  get epoch(): number {
    return this.#trackerEpoch
  }

  get isConnected(): boolean {
    return this.#tracker !== undefined
  }

  /** Whether its tickets have a place for links. */
  get linksPulls(): boolean {
    return this.#tracker?.linkPull !== undefined
  }

  // ---- the configuration -------------------------------------------------------------------------------------------

  /** It may be another tracker now, or another credential, or only other rules. */
  onConfigChange(): void {
    const { tracker } = this.#ports.config()
    const { eligible: _, startedState: __, reviewState: ___, whenTicketLeaves: ____, ...connection } = tracker
    const { apiKey, refreshToken, tokenExpiresAt, ...settings } = connection
    const isOurs = apiKey !== undefined && apiKey === this.#savingToken
    const settingsKey = JSON.stringify([settings, issueSettings(this.#ports.config())])
    const credentialKey = JSON.stringify([apiKey, refreshToken, tokenExpiresAt])
    if (settingsKey === this.#settingsKey && credentialKey === this.#credentialKey) return
    const isReplaced = settingsKey !== this.#settingsKey
    this.#settingsKey = settingsKey
    this.#credentialKey = credentialKey
    this.#replaceClient(isReplaced || !isOurs)
    if (isOurs && !isReplaced) return
    // What it was given for is used up, whatever else was set meanwhile: as long as that is in force, it is the only one.
    if (this.#unsaved?.usedRefreshToken !== refreshToken) this.#unsaved = undefined
    this.#reportConfiguration(tracker)
  }

  /** A person gave a credential that works. It may be the very one that was refused before, and so no change at all. */
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
    this.#ports.onTrackerReplaced(this.#tracker)
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
    })
  }

  #refreshAt(): number | null {
    const expiresAt = this.#expiresAt()
    return expiresAt === undefined ? null : expiresAt - TOKEN_REFRESH_AHEAD_MS
  }

  /** Of a token that was given out just now: one that lasts less than the lead is not renewed without end. */
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

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** Refused at the first try for want of a good credential, it is asked once more with a fresh one. */
  async ask<T>(request: (tracker: Tracker) => Promise<Result<T>>): Promise<Result<T>> {
    if (this.#refusal !== undefined) return this.#refusal
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
      log.error({ err: error }, 'the tracker could not be asked')
      return { generation, answer: no('failed', 'the tracker could not be asked; the log says why') }
    }
  }

  /** What it had to say when it was looked at. Of a tracker that is not asked any more it is no news. */
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

  /** The link is in another state. */
  onStateChange(value: unknown): void {
    this.#refusal = refusalIn(topState(value))
    if (!isRefreshing(value)) this.#resumeWaiting()
  }

  /** Whoever was refused need not wait any longer. */
  #resumeWaiting(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  // ---- refreshing --------------------------------------------------------------------------------------------------

  runEffect(effect: TrackerConnectionEffect): void {
    if (effect.type === 'tracker.settle') {
      this.#resumeWaiting()
      return
    }
    this.#timer()
    if (effect.type === 'tracker.refresh') void this.#refreshOnce()
    else if (effect.type === 'tracker.await') this.#scheduleRefresh(effect.at)
    else this.#retryAfter(this.#retryDelayMs(effect.failures))
  }

  /** A pair that is under way would be lost with this process, and the old one is used up by then. */
  async refreshSettled(): Promise<void> {
    await this.#refreshing?.outcome
  }

  stop(): void {
    this.#timer()
    this.#resumeWaiting()
  }

  /**
   * The link may be sent back to its beginning while one is under way. Asked twice, a provider takes a refresh token
   * for stolen; and what becomes of an earlier one says nothing of the one that is in force.
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
      return { type: 'not refreshed', problem, isStillValid }
    } catch (error) {
      this.#ports.log.error({ err: error }, 'the token of the tracker could not be refreshed')
      return {
        type: 'not refreshed',
        problem: 'the token could not be refreshed; the log says why',
        isStillValid,
      }
    }
  }

  /** Nobody has refused it, and it has not run out. */
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
      type: 'not refreshed',
      problem: `the new token could not be saved: ${saved.refusal.message}`.slice(0, TEXT_CHARS_MAX),
      isStillValid,
    }
  }

  #scheduleRefresh(at: number | null): void {
    if (at === null) return
    const { clock } = this.#ports
    const waitMs = at - clock.now()
    if (waitMs <= 0) this.#ports.sendEvent({ type: 'due' })
    else this.#timer = clock.after(Math.min(waitMs, WAIT_MS_MAX), () => this.#scheduleRefresh(at))
  }

  #retryAfter(ms: number): void {
    this.#timer = this.#ports.clock.after(ms, () => this.#ports.sendEvent({ type: 'due' }))
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
 * Where issues are tickets, which there are depends on the repositories and on the code host's account, and in which
 * state they are on the states that the host itself moves them to.
 */
function issueSettings({ tracker, repos, codehost }: ServiceConfig): unknown {
  const { startedState, reviewState } = tracker
  return tracker.driver === 'github' ? [repos, codehost, startedState, reviewState] : []
}

/** As people see it. */
export function trackerStatusOf(value: unknown, { error }: TrackerConnectionContext): TrackerStatus {
  const state = topState(value)
  return error === null ? { state } : { state, error }
}

function topState(value: unknown): TrackerStatus['state'] {
  const state = typeof value === 'string' ? value : Object.keys(Object(value))[0]
  // The machine's own states, which are these words.
  return state as TrackerStatus['state']
}

/** Asking with what is known to be refused answers nothing, and looks like an attack from the other side. */
function refusalIn(state: TrackerStatus['state']): Refused | undefined {
  if (state === 'auth-error') return no('unauthorized', CREDENTIAL_REFUSED)
  return state === 'refresh-failing' ? no('unavailable', REFRESH_FAILING) : undefined
}

const CREDENTIAL_REFUSED = 'the tracker does not take its credential any more; connect the tracker again'
const REFRESH_FAILING =
  'the token of the tracker has run out and cannot be renewed just now; try again in a while'

const isRefreshing = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).includes('refreshing')

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
import { strike } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { answerWithin } from '../../core/with-timeout.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  TEXT_CHARS_MAX,
  TOKEN_REFRESH_AHEAD_MS,
  TOKEN_REFRESH_RETRY_MS_FIRST,
  TOKEN_REFRESH_RETRY_MS_MAX,
  TRACKER_ANSWER_MS_MAX,
} from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { LinkContext, LinkEffect, LinkEvent } from './tracker-connection.machine.ts'

export interface LinkRoomPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly refresh: Accounts['refreshTracker']
  /** Durable and told when it resolves; refused as `conflict` when `still` does not hold any more. */
  readonly save: (
    change: CredentialChange,
    still: (config: ServiceConfig) => boolean,
  ) => Promise<Result<void>>
  readonly tell: (event: LinkEvent) => void
  /** What is known of the tickets was another tracker's word. */
  readonly replaced: (tracker: Tracker | undefined) => void
}

/** A pair that is not on disk yet, and the refresh token that it was given for. */
interface Unsaved {
  readonly pair: TokenPair
  readonly spent: string
}

/** Under way, and the refresh token that it uses up. */
interface Refreshing {
  readonly spent: string
  readonly outcome: Promise<LinkEvent>
}

/** Timers count at most so far; longer waits are looked at again. */
const WAIT_MS_MAX = 60 * 60_000

export class LinkRoom {
  readonly #ports: LinkRoomPorts
  #tracker: Tracker | undefined
  /** Another one for each credential: a refusal of an earlier one is no news. */
  #generation = 0
  #epoch = 0
  /** The last one that was refused. */
  #refused = -1
  #place = ''
  #credential: string | undefined
  #unsaved: Unsaved | undefined
  /** Of the pair that is being written: that it comes into force is no news from a person. */
  #saving: string | undefined
  #refreshing: Refreshing | undefined
  #waiting: (() => void)[] = []
  /** Why nobody is asked just now: the credential is known to be dead, or has run out. */
  #shut: Refused | undefined
  #timer: Cancel = () => {}

  constructor(ports: LinkRoomPorts) {
    this.#ports = ports
  }

  /** Another one for each tracker: what was asked of an earlier one is no news. */
  get epoch(): number {
    return this.#epoch
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
  configure(): void {
    const { tracker } = this.#ports.config()
    const { eligible: _, startedState: __, reviewState: ___, whenTicketLeaves: ____, ...connection } = tracker
    const { apiKey, refreshToken, tokenExpiresAt, ...place } = connection
    const isOurs = apiKey !== undefined && apiKey === this.#saving
    const placed = JSON.stringify([place, placeOfRepos(this.#ports.config())])
    const credential = JSON.stringify([apiKey, refreshToken, tokenExpiresAt])
    if (placed === this.#place && credential === this.#credential) return
    const moved = placed !== this.#place
    this.#place = placed
    this.#credential = credential
    this.#renew(moved || !isOurs)
    if (isOurs && !moved) return
    // What it was given for is used up, whatever else was set meanwhile: as long as that is in force, it is the only one.
    if (this.#unsaved?.spent !== refreshToken) this.#unsaved = undefined
    this.#introduce(tracker)
  }

  /** A person gave a credential that works. It may be the very one that was refused before, and so no change at all. */
  vouched(): void {
    if (this.#shut?.refusal.kind !== 'unauthorized') return
    this.#renew(false)
    this.#introduce(this.#ports.config().tracker)
  }

  #renew(replaced: boolean): void {
    this.#generation += 1
    this.#tracker = this.#ports.trackerFor(this.#ports.config())
    if (!replaced) return
    this.#epoch += 1
    this.#ports.replaced(this.#tracker)
  }

  #introduce({ pollSeconds, refreshToken }: ServiceConfig['tracker']): void {
    if (this.#tracker === undefined) {
      this.#ports.tell({ type: 'unconfigured' })
      return
    }
    this.#ports.tell({
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
    const halfLifeMs = (expiresAt - now) / 2
    return Math.max(
      expiresAt - TOKEN_REFRESH_AHEAD_MS,
      now + Math.max(halfLifeMs, TOKEN_REFRESH_RETRY_MS_FIRST),
    )
  }

  #expiresAt(): number | undefined {
    const { refreshToken, tokenExpiresAt } = this.#ports.config().tracker
    const at = Date.parse(tokenExpiresAt ?? '')
    return refreshToken === undefined || refreshToken === '' || Number.isNaN(at) ? undefined : at
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** Refused at the first try for want of a good credential, it is asked once more with a fresh one. */
  async ask<T>(errand: (tracker: Tracker) => Promise<Result<T>>): Promise<Result<T>> {
    if (this.#shut !== undefined) return this.#shut
    const first = await this.#tried(errand)
    if (!isRefused(first.answer)) return first.answer
    if (first.generation === this.#generation) await this.#freshened(first)
    if (first.generation === this.#generation || this.#tracker === undefined) return first.answer
    const second = await this.#tried(errand)
    if (isRefused(second.answer)) this.#noteRefusal(second)
    return second.answer
  }

  async #tried<T>(errand: (tracker: Tracker) => Promise<Result<T>>): Promise<Tried<T>> {
    const tracker = this.#tracker
    const generation = this.#generation
    const { clock, log } = this.#ports
    if (tracker === undefined) return { generation, answer: no('unavailable', NONE) }
    try {
      return {
        generation,
        answer: await answerWithin(clock, TRACKER_ANSWER_MS_MAX, errand(tracker), 'the tracker'),
      }
    } catch (error) {
      log.error({ err: error }, 'the tracker could not be asked')
      return { generation, answer: no('failed', 'the tracker could not be asked; the log says why') }
    }
  }

  /** What it had to say when it was looked at. Of a tracker that is not asked any more it is no news. */
  answered(problem: string | undefined): void {
    this.#ports.tell({ type: 'answered', problem: problem?.slice(0, TEXT_CHARS_MAX) ?? null })
  }

  #freshened(tried: Tried<unknown>): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#noteRefusal(tried)
    })
  }

  #noteRefusal({ answer, generation }: Tried<unknown>): void {
    if (answer.ok || generation !== this.#generation) return
    this.#refused = generation
    this.#ports.tell({ type: 'refused', problem: answer.refusal.message.slice(0, TEXT_CHARS_MAX) })
  }

  /** The link is in another state. */
  stands(value: unknown): void {
    this.#shut = shutIn(wordOf(value))
    if (!isRefreshing(value)) this.#settle()
  }

  /** Whoever was refused need not wait any longer. */
  #settle(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  // ---- refreshing --------------------------------------------------------------------------------------------------

  do(effect: LinkEffect): void {
    if (effect.type === 'tracker.settle') {
      this.#settle()
      return
    }
    this.#timer()
    if (effect.type === 'tracker.refresh') void this.#refreshOnce()
    else if (effect.type === 'tracker.await') this.#await(effect.at)
    else this.#tellAfter(this.#pauseMs(effect.failures))
  }

  /** A pair that is under way would be lost with this process, and the old one is used up by then. */
  async refreshed(): Promise<void> {
    await this.#refreshing?.outcome
  }

  stop(): void {
    this.#timer()
    this.#settle()
  }

  /**
   * The link may be sent back to its beginning while one is under way. Asked twice, a provider takes a refresh token
   * for stolen; and what becomes of an earlier one says nothing of the one that is in force.
   */
  async #refreshOnce(): Promise<void> {
    const spent = this.#ports.config().tracker.refreshToken ?? ''
    const known = this.#refreshing
    const refreshing = known?.spent === spent ? known : { spent, outcome: this.#refresh(spent) }
    this.#refreshing = refreshing
    const event = await refreshing.outcome
    if (this.#refreshing !== refreshing) return
    this.#refreshing = undefined
    this.#ports.tell(event)
  }

  async #refresh(spent: string): Promise<LinkEvent> {
    const stillGood = this.#isStillGood()
    try {
      const pair = await this.#newPair(spent)
      if (pair.ok) return await this.#saved({ pair: pair.value, spent }, stillGood)
      const { kind, message } = pair.refusal
      const problem = strike(message, [spent]).slice(0, TEXT_CHARS_MAX)
      if (kind === 'unauthorized') return { type: 'refresh denied', problem }
      return { type: 'not refreshed', problem, stillGood }
    } catch (error) {
      this.#ports.log.error({ err: error }, 'the token of the tracker could not be refreshed')
      return {
        type: 'not refreshed',
        problem: 'the token could not be refreshed; the log says why',
        stillGood,
      }
    }
  }

  /** Nobody has refused it, and it has not run out. */
  #isStillGood(): boolean {
    const expiresAt = this.#expiresAt()
    return (
      this.#refused !== this.#generation && expiresAt !== undefined && this.#ports.clock.now() < expiresAt
    )
  }

  async #newPair(spent: string): Promise<Result<TokenPair>> {
    if (this.#unsaved?.spent === spent) return yes(this.#unsaved.pair)
    const { clock, config, refresh } = this.#ports
    return answerWithin(clock, TRACKER_ANSWER_MS_MAX, refresh(config(), spent), 'the tracker')
  }

  async #saved(unsaved: Unsaved, stillGood: boolean): Promise<LinkEvent> {
    const { accessToken, refreshToken, expiresAt } = unsaved.pair
    this.#unsaved = unsaved
    this.#saving = accessToken
    const change = {
      tracker: {
        apiKey: accessToken,
        tokenExpiresAt: expiresAt ?? null,
        ...(refreshToken === undefined ? {} : { refreshToken }),
      },
    }
    const saved = await this.#ports.save(change, ({ tracker }) => tracker.refreshToken === unsaved.spent)
    this.#saving = undefined
    if (saved.ok || saved.refusal.kind === 'conflict') this.#unsaved = undefined
    if (saved.ok) return { type: 'refreshed', refreshAt: this.#nextRefreshAt() }
    return {
      type: 'not refreshed',
      problem: `the new token could not be saved: ${saved.refusal.message}`.slice(0, TEXT_CHARS_MAX),
      stillGood,
    }
  }

  #await(at: number | null): void {
    if (at === null) return
    const { clock } = this.#ports
    const waitMs = at - clock.now()
    if (waitMs <= 0) this.#ports.tell({ type: 'due' })
    else this.#timer = clock.after(Math.min(waitMs, WAIT_MS_MAX), () => this.#await(at))
  }

  #tellAfter(ms: number): void {
    this.#timer = this.#ports.clock.after(ms, () => this.#ports.tell({ type: 'due' }))
  }

  #pauseMs(failures: number): number {
    const roll = this.#ports.random.fraction()
    return backoffMs(failures, TOKEN_REFRESH_RETRY_MS_FIRST, TOKEN_REFRESH_RETRY_MS_MAX, roll)
  }
}

interface Tried<T> {
  readonly generation: number
  readonly answer: Result<T>
}

const NONE = 'no tracker is connected; connect one, or set tracker in the configuration'

const isRefused = (answer: Result<unknown>): boolean => !answer.ok && answer.refusal.kind === 'unauthorized'

/**
 * Where issues are tickets, which there are depends on the repositories and on the code host's account, and in which
 * state they are on the states that the host itself moves them to.
 */
function placeOfRepos({ tracker, repos, codehost }: ServiceConfig): unknown {
  const { startedState, reviewState } = tracker
  return tracker.driver === 'github' ? [repos, codehost, startedState, reviewState] : []
}

/** As people see it. */
export function statusOf(value: unknown, { error }: LinkContext): TrackerStatus {
  const state = wordOf(value)
  return error === null ? { state } : { state, error }
}

function wordOf(value: unknown): TrackerStatus['state'] {
  const state = typeof value === 'string' ? value : Object.keys(Object(value))[0]
  // The machine's own states, which are these words.
  return state as TrackerStatus['state']
}

/** Asking with what is known to be refused answers nothing, and looks like an attack from the other side. */
function shutIn(state: TrackerStatus['state']): Refused | undefined {
  if (state === 'auth-error') return no('unauthorized', DEAD)
  return state === 'refresh-failing' ? no('unavailable', FAILING) : undefined
}

const DEAD = 'the tracker does not take its credential any more; connect the tracker again'
const FAILING = 'the token of the tracker has run out and cannot be renewed just now; try again in a while'

const isRefreshing = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).includes('refreshing')

/**
 * FollowUpReader reads the conversation of a pull request right before its follow-up goes to a worker.
 *
 * Nothing is read for a follow-up while no worker has a free slot. Once a worker could take it, the follow-up waits for
 * its pull request (`waitingFor` names the reason) and is scheduled again after the read. Failed reads are retried with
 * backoff. Results live in memory only: after a restart everything is read again.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import { no, type Refusal, type Result, SERVICE_FAILED, yes } from '../../core/result.ts'
import { type PullDiscussion, readDiscussion } from '../../core/run/follow-up.ts'
import type { RepoMapping } from '../../protocol/config.ts'
import type { PullState, Run } from '../../protocol/run.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { HostContext } from '../host-context.ts'

/** A pull request that was read longer ago is read again before its follow-up is dispatched. */
export const FOLLOW_UP_FRESH_MS = 5 * 60_000
const FOLLOW_UP_RETRY_MS_FIRST = 2_000
const FOLLOW_UP_RETRY_MS_MAX = 5 * 60_000
/** Pull requests that are read at once, and that are kept in memory after reading. */
export const FOLLOW_UP_READS_AT_ONCE = 4
export const FOLLOW_UP_READS_KEPT = 32

export interface FollowUpReaderPorts
  extends Pick<HostContext, 'clock' | 'random' | 'log' | 'pullRequestApi' | 'requestScheduling'> {
  readonly trustedClock: Pick<TrustedClock, 'now'>
  readonly placeOf: (run: Run, codeHost: PullRequestApi) => Result<PullReference>
  /** Called when the reason why this run waits may have changed. */
  readonly onWaitReasonChanged: (runId: string) => void
  readonly onPullState: (runId: string, url: string, state: PullState) => void
  /** Returns which remarks of this pull request count. */
  readonly rulesFor: (run: Run, url: string, place: PullReference) => RemarkRules
  /** Called after each answer of the code host about a repository; `refusal`: why there was none. */
  readonly onAsked: (runId: string, remote: string, refusal: Refusal | undefined) => void
  /** Called when the pull request can't be followed up any more. */
  readonly onPullGone: (runId: string, reason: string) => void
}

/** `held`: its pull request is being read. `later`: too many reads run; it is scheduled again after one of them. */
export type Readiness = 'ready' | 'held' | 'later'

/** The longest timer for the end of a sandbox's retention. Timers of the platform overflow after 24 days. */
const RETENTION_CHECK_MS_MAX = 24 * 3_600_000
/** Then it is asked whether the wall clock still counts as wrong. */
const DOUBTED_CHECK_MS = 60_000

/** The queue reasons of a follow-up that waits for its pull request. */
export const FOLLOW_UP_WAIT_REASONS = {
  reading: 'its pull request is being read',
  unreadable: (reason: string) => `its pull request cannot be read: ${reason}`,
} as const

interface PullReading {
  /** `due`: the pull request may be read again. `away`: the last read failed. */
  readonly is: 'reading' | 'away' | 'due' | 'ready'
  /** Failures in a row. */
  readonly failures: number
  readonly reason?: string
  readonly talk?: PullDiscussion
  readonly readAt?: number
}

interface FetchedPull {
  readonly result: Result<PullReadResult>
  /** The repository at which the code host was asked; absent when it was not asked. */
  readonly remote?: string
}

export class FollowUpReader {
  readonly #ports: FollowUpReaderPorts
  /** Reads by run id, the oldest first. */
  readonly #readings = new Map<string, PullReading>()
  readonly #cancelRetries = new Map<string, Cancel>()
  /** Timers for the end of the retention of sandboxes that follow-ups wait for, by run id. */
  readonly #cancelRetentionChecks = new Map<string, Cancel>()
  readonly #starting = new Set<string>()
  #readsRunning = 0
  #isStopped = false

  constructor(ports: FollowUpReaderPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#readings.size + this.#cancelRetentionChecks.size
  }

  stop(): void {
    this.#isStopped = true
    for (const cancel of [...this.#cancelRetries.values(), ...this.#cancelRetentionChecks.values()]) cancel()
    this.#cancelRetries.clear()
    this.#cancelRetentionChecks.clear()
  }

  // ---- follow-ups that start ---------------------------------------------------------------------------------------

  /** Whether a follow-up of this run was requested and the code host has not answered yet. */
  isStarting(runId: string): boolean {
    return this.#starting.has(runId)
  }

  async whileStarting<T>(runId: string, ask: () => Promise<T>): Promise<T> {
    this.#starting.add(runId)
    try {
      return await ask()
    } finally {
      this.#starting.delete(runId)
    }
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  /** Starts waiting for a worker. While its sandbox is retained, the follow-up waits for the worker that holds it. */
  startWaiting({ id, sandbox }: Pick<Run, 'id' | 'sandbox'>): void {
    this.#cancelRetentionChecks.get(id)?.()
    this.#cancelRetentionChecks.delete(id)
    if (sandbox.retainedUntil === undefined) return
    const now = this.#ports.trustedClock.now()
    const leftMs = now === undefined ? DOUBTED_CHECK_MS : Date.parse(sandbox.retainedUntil) - now
    if (!(leftMs > 0)) return
    const cancel = this.#ports.clock.after(Math.min(leftMs, RETENTION_CHECK_MS_MAX), () => {
      this.startWaiting({ id, sandbox })
      this.#ports.onWaitReasonChanged(id)
    })
    this.#cancelRetentionChecks.set(id, cancel)
  }

  /** Stops waiting. The conversation stays in memory until a worker has accepted the follow-up. */
  stopWaiting(runId: string): void {
    this.#cancelRetentionChecks.get(runId)?.()
    this.#cancelRetentionChecks.delete(runId)
  }

  forget(runId: string): void {
    this.stopWaiting(runId)
    this.#cancelRetries.get(runId)?.()
    this.#cancelRetries.delete(runId)
    this.#readings.delete(runId)
  }

  /** Returns what the follow-up waits for besides a worker. */
  waitingFor(runId: string): string | undefined {
    const reading = this.#readings.get(runId)
    if (reading?.is === 'reading') return FOLLOW_UP_WAIT_REASONS.reading
    return reading?.is === 'away' ? reading.reason : undefined
  }

  /** Called when a worker has a free slot. Returns whether the follow-up may be dispatched; starts a read if needed. */
  readiness(run: Run): Readiness {
    const reading = this.#readings.get(run.id)
    if (reading?.is === 'reading' || reading?.is === 'away') return 'held'
    const isFresh =
      this.#ports.clock.monotonic() - (reading?.readAt ?? Number.NEGATIVE_INFINITY) < FOLLOW_UP_FRESH_MS
    if (reading?.is === 'ready' && isFresh) return 'ready'
    if (this.#readsRunning >= FOLLOW_UP_READS_AT_ONCE) return 'later'
    void this.#read(run, run.prUrl ?? '', reading?.is === 'due' ? reading.failures : 0)
    return 'held'
  }

  talk(runId: string): Result<PullDiscussion> {
    const talk = this.#readings.get(runId)?.talk
    return talk === undefined ? no('unavailable', 'its pull request has not been read yet') : yes(talk)
  }

  /** Lets every pull request be read again, because the code host may be another one now. */
  onCodeHostChanged(): void {
    for (const runId of [...this.#readings.keys()]) this.#markDue(runId, 0)
  }

  // ---- reading -----------------------------------------------------------------------------------------------------

  async #read(run: Run, url: string, failures: number): Promise<void> {
    const reading: PullReading = { is: 'reading', failures }
    this.#setReading(run.id, reading)
    this.#readsRunning += 1
    const { result, remote } = await this.#fetch(run, url)
    this.#readsRunning -= 1
    if (this.#isStopped) return
    // The follow-up may have ended meanwhile, or the code host may have changed.
    if (this.#readings.get(run.id) === reading) {
      if (remote !== undefined) this.#ports.onAsked(run.id, remote, result.ok ? undefined : result.refusal)
      this.#onRead(run.id, url, failures, result)
    }
    this.#ports.requestScheduling()
  }

  #onRead(runId: string, url: string, failures: number, result: Result<PullReadResult>): void {
    if (!result.ok) {
      if (result.refusal.kind === 'unknown')
        this.#onPullGone(runId, 'the code host does not know its pull request any more')
      else this.#onReadFailed(runId, failures + 1, result.refusal.message)
      return
    }
    const { state, talk } = result.value
    // A merged or closed pull request ends its follow-up here.
    this.#ports.onPullState(runId, url, state)
    if (!this.#readings.has(runId)) return
    if (!talk.ok) {
      this.#onPullGone(runId, talk.refusal.message)
      return
    }
    this.#setReading(runId, {
      is: 'ready',
      failures: 0,
      talk: talk.value,
      readAt: this.#ports.clock.monotonic(),
    })
    this.#dropOldest()
    this.#ports.onWaitReasonChanged(runId)
  }

  async #fetch(run: Run, url: string): Promise<FetchedPull> {
    try {
      const pulls = this.#ports.pullRequestApi()
      if (!pulls.ok) return { result: pulls }
      const place = this.#ports.placeOf(run, pulls.value)
      if (!place.ok) return { result: place }
      const rules = this.#ports.rulesFor(run, url, place.value)
      return { result: await readPull(pulls.value, place.value, url, rules), remote: place.value.remote }
    } catch (error) {
      this.#ports.log.error({ url, err: error }, 'a pull request could not be read')
      return { result: no('failed', SERVICE_FAILED) }
    }
  }

  #onPullGone(runId: string, reason: string): void {
    this.#readings.delete(runId)
    this.#ports.onPullGone(runId, reason)
  }

  #onReadFailed(runId: string, failures: number, reason: string): void {
    const { random, onWaitReasonChanged, clock, log } = this.#ports
    const waitReason = FOLLOW_UP_WAIT_REASONS.unreadable(reason)
    log.debug({ run: runId, reason }, 'the pull request of a follow-up cannot be read')
    this.#setReading(runId, { is: 'away', failures, reason: waitReason })
    const waitMs = backoffMs(failures, FOLLOW_UP_RETRY_MS_FIRST, FOLLOW_UP_RETRY_MS_MAX, random.fraction())
    const cancel = clock.after(waitMs, () => this.#markDue(runId, failures))
    this.#cancelRetries.set(runId, cancel)
    onWaitReasonChanged(runId)
  }

  #markDue(runId: string, failures: number): void {
    this.#cancelRetries.get(runId)?.()
    this.#cancelRetries.delete(runId)
    this.#setReading(runId, { is: 'due', failures })
    this.#ports.onWaitReasonChanged(runId)
  }

  /** Stores a reading as the newest, which stands last in the map. */
  #setReading(runId: string, reading: PullReading): void {
    this.#readings.delete(runId)
    this.#readings.set(runId, reading)
  }

  /** Drops the oldest conversations over the limit, to read them again when a worker could take their follow-up. */
  #dropOldest(): void {
    const ready = [...this.#readings].filter(([, { is }]) => is === 'ready')
    for (const [runId] of ready.slice(0, Math.max(0, ready.length - FOLLOW_UP_READS_KEPT)))
      this.#readings.delete(runId)
  }
}

// ---- one pull request --------------------------------------------------------------------------------------------

interface PullReadResult {
  readonly state: PullState
  readonly talk: Result<PullDiscussion>
}

interface RemarkRules {
  /** Keys of the remarks that earlier follow-ups received, when they are known. */
  readonly answered: ReadonlySet<string> | undefined
  readonly orders: RepoMapping['orders']
}

/** Reads the state and the discussion of one pull request from the code host. */
async function readPull(
  pulls: PullRequestApi,
  place: PullReference,
  url: string,
  { answered, orders }: RemarkRules,
): Promise<Result<PullReadResult>> {
  const [detail, origin] = await Promise.all([pulls.detail(place), pulls.branches(place)])
  if (!detail.ok) return detail
  // The origin of a merged or closed pull request is not needed.
  const { state } = detail.value
  if (state === 'merged' || state === 'closed') return yes({ state, talk: PULL_OVER })
  return origin.ok
    ? yes({ state, talk: readDiscussion(url, detail.value, origin.value, answered, orders) })
    : origin
}

const PULL_OVER = no('conflict', 'its pull request is over')

/**
 * `withRetries` repeats an attempt that failed for a temporary reason, with growing pauses, until the signal aborts.
 *
 * Without a `LongRetry` it makes a few attempts within seconds. With one it retries for minutes, logs the reason to the
 * run, and states the duration in the final refusal. A pause that the server requests (`retryAfterMs`) is kept and does
 * not count towards the duration; a pause beyond `requestedMs` ends the attempts at once.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Refusal, Result } from '../../core/result.ts'
import type { Job, JobLimits } from '../../protocol/frames.ts'

const TRIES_MAX = 3
const PAUSE_MS = 500
const PAUSE_MS_MAX = 5_000
/** The first pause of a long retry: the effect of an attempt whose response was lost becomes visible after a moment. */
const LONG_PAUSE_MS = 2_000
const LONG_PAUSE_MS_MAX = 30_000
/** The run holds its slot. After this time the work waits in its sandbox, and the host has it published again. */
const PUBLISHING_MS_MAX = 3 * 60_000
/** Longer if nobody can publish later, because giving up loses an hour of an agent's work. */
const LAST_CHANCE_MS_MAX = 10 * 60_000
/** No work is lost yet, and other runs wait for the repository's mirror. */
const FETCHING_MS_MAX = 3 * 60_000
const SECOND_MS = 1_000
/**
 * Limits the sum of pauses that the server requests. Rate limits of code hosts last at most an hour; meanwhile the run
 * occupies its slot and its lease.
 */
const REQUESTED_MS_MAX = 65 * 60_000
/** The first failures are not logged. */
const SILENT_TRIES_MAX = 2
const MINUTE_MS = 60_000

export interface RetryPorts {
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
}

/** Retry for minutes instead of a few times. */
export interface LongRetry {
  readonly forMs: number
  /** The sum of the pauses that the server may request. */
  readonly requestedMs: number
  /** Writes a line to the run's log. */
  readonly logToRun: (line: string) => void
  /** The run waits in the queue of its host afterwards, and need not repeat what another has just tried in vain. */
  readonly isGivenBack?: true
}

/** @param job a host of an earlier version, which sends no `unreachableSeconds`, has nothing published later */
export const whilePublishing = (
  { limits, retentionHours }: Pick<Job, 'limits' | 'retentionHours'>,
  logToRun: LongRetry['logToRun'] = () => {},
): LongRetry =>
  limits.unreachableSeconds === undefined || retentionHours === 0
    ? { forMs: LAST_CHANCE_MS_MAX, requestedMs: REQUESTED_MS_MAX, logToRun }
    : { forMs: PUBLISHING_MS_MAX, requestedMs: PUBLISHING_MS_MAX, logToRun }

export const whileFetching = (logToRun: LongRetry['logToRun'] = () => {}): LongRetry => ({
  forMs: FETCHING_MS_MAX,
  requestedMs: REQUESTED_MS_MAX,
  logToRun,
})

/** @param limits of a job that has not begun: its host may want it back soon, so that its slot is free for others */
export const whileBeginning = (
  { unreachableSeconds }: Pick<JobLimits, 'unreachableSeconds'>,
  logToRun?: LongRetry['logToRun'],
): LongRetry =>
  unreachableSeconds === undefined
    ? whileFetching(logToRun)
    : { ...whileFetching(logToRun), forMs: unreachableSeconds * SECOND_MS, isGivenBack: true }

export interface Attempt<T> {
  readonly result: Result<T>
  /** Whether another attempt may succeed. */
  readonly isTransient: boolean
}

/** Whether the refusal is a temporary problem of the server, and not caused by the request. */
export const isTransientRefusal = (kind: string): boolean => kind === 'failed' || kind === 'unavailable'

export async function withRetries<T>(
  ports: RetryPorts,
  signal: AbortSignal | undefined,
  attempt: () => Promise<Attempt<T>>,
  longRetry?: LongRetry,
): Promise<Result<T>> {
  const waiting = new RetryState(ports, longRetry)
  for (;;) {
    const { result, isTransient } = await attempt()
    if (result.ok || !isTransient || isUnwanted(signal)) return waiting.finish(result)
    const pauseMs = waiting.pauseAfter(result.refusal)
    if (pauseMs === undefined) return waiting.finish(result)
    await pause(pauseMs, ports.clock, signal)
    if (isUnwanted(signal)) return result
  }
}

const isUnwanted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true

class RetryState {
  readonly #ports: RetryPorts
  readonly #longRetry: LongRetry | undefined
  readonly #began: number
  #tries = 0
  /** The sum of the pauses that the server requested. */
  #requestedMs = 0
  #loggedReason: string | undefined
  #gaveUp: string | undefined

  constructor(ports: RetryPorts, longRetry: LongRetry | undefined) {
    this.#ports = ports
    this.#longRetry = longRetry
    this.#began = ports.clock.monotonic()
  }

  /** undefined: give up. */
  pauseAfter({ message, retryAfterMs: againAfterMs = 0 }: Refusal): number | undefined {
    this.#tries += 1
    const fraction = this.#ports.random.fraction()
    if (this.#longRetry === undefined) {
      const briefMs = backoffMs(this.#tries, PAUSE_MS, PAUSE_MS_MAX, fraction)
      return this.#tries < TRIES_MAX && againAfterMs <= briefMs ? briefMs : undefined
    }
    const leftMs = this.#longRetry.forMs - this.#triedMs()
    if (leftMs <= 0) return undefined
    const ownMs = backoffMs(this.#tries, LONG_PAUSE_MS, LONG_PAUSE_MS_MAX, fraction)
    // All clients may return at the same moment, so add a random pause to the requested one.
    if (againAfterMs > ownMs) return this.#waitAsRequested(this.#longRetry, message, againAfterMs + ownMs)
    this.#logReason(message, leftMs)
    return Math.min(leftMs, ownMs)
  }

  finish<T>(result: Result<T>): Result<T> {
    if (this.#loggedReason === undefined) return result
    const time = formatTime(this.#ports.clock.monotonic() - this.#began)
    if (!result.ok) {
      const message = `${result.refusal.message} (${this.#gaveUp ?? `tried for ${time}`})`
      return { ok: false, refusal: { ...result.refusal, message } }
    }
    this.#longRetry?.logToRun(`it worked after ${time}`)
    return result
  }

  #triedMs(): number {
    return this.#ports.clock.monotonic() - this.#began - this.#requestedMs
  }

  #waitAsRequested(longRetry: LongRetry, reason: string, ms: number): number | undefined {
    this.#loggedReason = reason
    if (this.#requestedMs + ms > longRetry.requestedMs) {
      this.#gaveUp = `not within ${formatTime(ms)}, which is too long to wait for`
      return undefined
    }
    this.#requestedMs += ms
    const until = new Date(this.#ports.clock.now() + ms).toISOString()
    longRetry.logToRun(`${reason}; waiting until ${until}, as the other side asks`)
    return ms
  }

  /** Logs each reason once. */
  #logReason(reason: string, leftMs: number): void {
    if (this.#tries <= SILENT_TRIES_MAX || reason === this.#loggedReason) return
    this.#loggedReason = reason
    this.#longRetry?.logToRun(`${reason}; trying again for up to ${formatTime(leftMs)}`)
  }
}

function formatTime(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / SECOND_MS))
  if (seconds < 60) return seconds === 1 ? 'a second' : `${seconds} seconds`
  const minutes = Math.round(ms / MINUTE_MS)
  return minutes === 1 ? 'a minute' : `${minutes} minutes`
}

/** Ends early if the signal aborts. */
export function pause(
  ms: number,
  clock: Pick<Clock, 'after'>,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (isUnwanted(signal)) return Promise.resolve()
  return new Promise((resolve) => {
    const over = () => {
      cancel()
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const cancel = clock.after(ms, over)
    signal?.addEventListener('abort', over, { once: true })
  })
}

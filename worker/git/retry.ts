/**
 * Trying again what failed for a reason that passes, at growing distances, and not once it is unwanted.
 *
 * A few times in as many seconds, or, where much would be lost by giving up, for minutes: then whoever looks at the run
 * is told why it takes so long, and the refusal in the end says how long it was tried. A pause that the other side asks
 * for is kept, and does not count as trying; one that is longer than anybody should wait for is not begun.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'

const TRIES_MAX = 3
const PAUSE_MS = 500
const PAUSE_MS_MAX = 5_000
/** What was done by a try whose answer was lost shows a little later. */
const LONG_PAUSE_MS = 2_000
const LONG_PAUSE_MS_MAX = 30_000
/** An hour of an agent's work may hang on it. */
const PUBLISHING_MS_MAX = 10 * 60_000
/** Nothing is lost yet, and others wait for the worker's copy of the repository. */
const FETCHING_MS_MAX = 3 * 60_000
/**
 * Pauses that the other side asked for, all together: limits of code hosts last an hour at most. Meanwhile the run has
 * its place on the worker, and its lease.
 */
const REQUESTED_MS_MAX = 65 * 60_000
/** A hiccup is nobody's business. */
const SILENT_TRIES_MAX = 2
const MINUTE_MS = 60_000

export interface RetryPorts {
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
}

/** For minutes instead of a few times. */
export interface LongRetry {
  readonly forMs: number
  /** One line for whoever looks at the run. */
  readonly logToRun: (line: string) => void
}

export const whilePublishing = (logToRun: LongRetry['logToRun'] = () => {}): LongRetry => ({
  forMs: PUBLISHING_MS_MAX,
  logToRun,
})

export const whileFetching = (logToRun: LongRetry['logToRun'] = () => {}): LongRetry => ({
  forMs: FETCHING_MS_MAX,
  logToRun,
})

export interface Attempt<T> {
  readonly result: Result<T>
  /** Whether trying again may help. */
  readonly isTransient: boolean
}

/** A refusal that is the other side's trouble of the moment, and not about what was asked. */
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
  /** Of pauses that were asked for. */
  #requestedMs = 0
  #loggedReason: string | undefined
  #gaveUp: string | undefined

  constructor(ports: RetryPorts, longRetry: LongRetry | undefined) {
    this.#ports = ports
    this.#longRetry = longRetry
    this.#began = ports.clock.monotonic()
  }

  /** undefined: it was tried often, or long, enough. */
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
    // Everybody is let in again at the same moment, so nobody comes right then.
    if (againAfterMs > ownMs) return this.#waitAsRequested(message, againAfterMs + ownMs)
    this.#logReason(message, leftMs)
    return Math.min(leftMs, ownMs)
  }

  finish<T>(result: Result<T>): Result<T> {
    if (this.#loggedReason === undefined) return result
    const minutes = formatMinutes(this.#ports.clock.monotonic() - this.#began)
    if (!result.ok)
      return no(result.refusal.kind, `${result.refusal.message} (${this.#gaveUp ?? `tried for ${minutes}`})`)
    this.#longRetry?.logToRun(`it worked after ${minutes}`)
    return result
  }

  #triedMs(): number {
    return this.#ports.clock.monotonic() - this.#began - this.#requestedMs
  }

  #waitAsRequested(reason: string, ms: number): number | undefined {
    this.#loggedReason = reason
    if (this.#requestedMs + ms > REQUESTED_MS_MAX) {
      this.#gaveUp = `not within ${formatMinutes(ms)}, which is too long to wait for`
      return undefined
    }
    this.#requestedMs += ms
    const until = new Date(this.#ports.clock.now() + ms).toISOString()
    this.#longRetry?.logToRun(`${reason}; waiting until ${until}, as the other side asks`)
    return ms
  }

  /** Once for each reason. */
  #logReason(reason: string, leftMs: number): void {
    if (this.#tries <= SILENT_TRIES_MAX || reason === this.#loggedReason) return
    this.#loggedReason = reason
    this.#longRetry?.logToRun(`${reason}; trying again for up to ${formatMinutes(leftMs)}`)
  }
}

function formatMinutes(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / MINUTE_MS))
  return minutes === 1 ? 'a minute' : `${minutes} minutes`
}

/** Ends early once nobody wants it to go on. */
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

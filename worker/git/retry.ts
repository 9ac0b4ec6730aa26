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
const LASTING_PAUSE_MS = 2_000
const LASTING_PAUSE_MS_MAX = 30_000
/** An hour of an agent's work may hang on it. */
const PUBLISHING_MS_MAX = 10 * 60_000
/** Nothing is lost yet, and others wait for the worker's copy of the repository. */
const FETCHING_MS_MAX = 3 * 60_000
/**
 * Pauses that the other side asked for, all together: limits of code hosts last an hour at most. Meanwhile the run has
 * its place on the worker, and its lease.
 */
const ASKED_MS_MAX = 65 * 60_000
/** A hiccup is nobody's business. */
const SILENT_TRIES = 2
const MINUTE_MS = 60_000

export interface Patience {
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
}

/** For minutes instead of a few times. */
export interface Endurance {
  readonly forMs: number
  /** One line for whoever looks at the run. */
  readonly told: (line: string) => void
}

export const publishing = (told: Endurance['told'] = () => {}): Endurance => ({
  forMs: PUBLISHING_MS_MAX,
  told,
})

export const fetching = (told: Endurance['told'] = () => {}): Endurance => ({ forMs: FETCHING_MS_MAX, told })

export interface Tried<T> {
  readonly answer: Result<T>
  /** Whether trying again may help. */
  readonly passes: boolean
}

/** A refusal that is the other side's trouble of the moment, and not about what was asked. */
export const isPassing = (kind: string): boolean => kind === 'failed' || kind === 'unavailable'

export async function patiently<T>(
  parts: Patience,
  signal: AbortSignal | undefined,
  attempt: () => Promise<Tried<T>>,
  endurance?: Endurance,
): Promise<Result<T>> {
  const waiting = new Waiting(parts, endurance)
  for (;;) {
    const { answer, passes } = await attempt()
    if (answer.ok || !passes || isUnwanted(signal)) return waiting.over(answer)
    const pauseMs = waiting.pauseAfter(answer.refusal)
    if (pauseMs === undefined) return waiting.over(answer)
    await pause(pauseMs, parts.clock, signal)
    if (isUnwanted(signal)) return answer
  }
}

const isUnwanted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true

class Waiting {
  readonly #parts: Patience
  readonly #endurance: Endurance | undefined
  readonly #began: number
  #tries = 0
  /** Of pauses that were asked for. */
  #askedMs = 0
  #said: string | undefined
  #gaveUp: string | undefined

  constructor(parts: Patience, endurance: Endurance | undefined) {
    this.#parts = parts
    this.#endurance = endurance
    this.#began = parts.clock.monotonic()
  }

  /** undefined: it was tried often, or long, enough. */
  pauseAfter({ message, retryAfterMs: againAfterMs = 0 }: Refusal): number | undefined {
    this.#tries += 1
    const fraction = this.#parts.random.fraction()
    if (this.#endurance === undefined) {
      const briefMs = backoffMs(this.#tries, PAUSE_MS, PAUSE_MS_MAX, fraction)
      return this.#tries < TRIES_MAX && againAfterMs <= briefMs ? briefMs : undefined
    }
    const leftMs = this.#endurance.forMs - this.#triedMs()
    if (leftMs <= 0) return undefined
    const ownMs = backoffMs(this.#tries, LASTING_PAUSE_MS, LASTING_PAUSE_MS_MAX, fraction)
    // Everybody is let in again at the same moment, so nobody comes right then.
    if (againAfterMs > ownMs) return this.#askedFor(message, againAfterMs + ownMs)
    this.#tell(message, leftMs)
    return Math.min(leftMs, ownMs)
  }

  over<T>(answer: Result<T>): Result<T> {
    if (this.#said === undefined) return answer
    const minutes = inMinutes(this.#parts.clock.monotonic() - this.#began)
    if (!answer.ok)
      return no(answer.refusal.kind, `${answer.refusal.message} (${this.#gaveUp ?? `tried for ${minutes}`})`)
    this.#endurance?.told(`it worked after ${minutes}`)
    return answer
  }

  #triedMs(): number {
    return this.#parts.clock.monotonic() - this.#began - this.#askedMs
  }

  #askedFor(reason: string, ms: number): number | undefined {
    this.#said = reason
    if (this.#askedMs + ms > ASKED_MS_MAX) {
      this.#gaveUp = `not within ${inMinutes(ms)}, which is too long to wait for`
      return undefined
    }
    this.#askedMs += ms
    const until = new Date(this.#parts.clock.now() + ms).toISOString()
    this.#endurance?.told(`${reason}; waiting until ${until}, as the other side asks`)
    return ms
  }

  /** Once for each reason. */
  #tell(reason: string, leftMs: number): void {
    if (this.#tries <= SILENT_TRIES || reason === this.#said) return
    this.#said = reason
    this.#endurance?.told(`${reason}; trying again for up to ${inMinutes(leftMs)}`)
  }
}

function inMinutes(ms: number): string {
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

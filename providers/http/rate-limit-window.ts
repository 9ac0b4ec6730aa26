/**
 * One thing that a service counts: what is left of it, and whether it may be asked for at all.
 *
 * Shut, nobody passes until the instant that the service named. Then exactly one goes first, the probe, and the others
 * follow only when it was served; refused again, it stays shut for longer each time. Instants are monotonic, numbers
 * of requests are in the order in which they began.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Urgency } from '../../core/provider-ports.ts'

/** `told`: the service wants fewer requests. `spent`: nothing is left. `sparing`: what is left is for people. */
export interface StopVerdict {
  readonly is: 'stop'
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted' | 'reserved'
  readonly limit?: number
  readonly remaining?: number
}

/** `wait`: for a reply that is under way, which will say more. */
export type RateLimitVerdict = { readonly is: 'go' } | { readonly is: 'wait' } | StopVerdict

export interface WindowReport {
  readonly limit?: number
  readonly remaining: number
  /** From then on it says nothing any more. */
  readonly until: number
}

/** What nobody waits for leaves so much of a limit to people. */
export const RESERVE_SHARE = 0.2
/** However often it was refused. */
export const BLOCK_MS_MAX = 3_600_000

const GO: RateLimitVerdict = { is: 'go' }
const WAIT: RateLimitVerdict = { is: 'wait' }

interface WindowBlock {
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted'
  /** In a row. */
  readonly rejections: number
}

export class RateLimitWindow {
  #report: (WindowReport & { readonly asOf: number }) | undefined
  #block: WindowBlock | undefined
  #probe: number | undefined
  readonly #inFlight = new Set<number>()

  verdict(urgency: Urgency, now: number): RateLimitVerdict {
    if (this.#block !== undefined) {
      if (now < this.#block.until) return this.#stopVerdict(this.#block.why, this.#block.until)
      return this.#probe === undefined ? GO : WAIT
    }
    const report = this.#reportAt(now)
    if (report === undefined) return GO
    const floor = urgency === 'person' ? 0 : reserveOf(report)
    if (report.remaining <= floor)
      return this.#stopVerdict(report.remaining <= 0 ? 'exhausted' : 'reserved', report.until)
    // Whoever began after it was said draws from the same, and the service has not said so yet.
    const startedSince = [...this.#inFlight].filter((number) => number > report.asOf).length
    return report.remaining - startedSince <= floor ? WAIT : GO
  }

  /** Nothing would be lost by forgetting it. */
  hasNothingToRemember(now: number): boolean {
    return this.#inFlight.size === 0 && this.#block === undefined && this.#reportAt(now) === undefined
  }

  get isBlocked(): boolean {
    return this.#block !== undefined
  }

  isReserved(now: number): boolean {
    const report = this.#reportAt(now)
    return report !== undefined && report.remaining <= reserveOf(report)
  }

  recordStart(number: number): void {
    this.#inFlight.add(number)
    if (this.#block !== undefined) this.#probe = number
  }

  /**
   * Replies come in any order; what was said to a later request counts.
   *
   * @param isRejected a refusal says itself for how long
   */
  applyReport(number: number, report: WindowReport, isRejected: boolean): void {
    if (this.#report !== undefined && this.#report.asOf > number) return
    this.#report = { ...report, asOf: number }
    if (report.remaining <= 0) {
      if (!isRejected) this.#blockUntil(report.until, 'exhausted', 1)
    } else if (this.#block?.why === 'exhausted' && this.#probe !== number) this.#block = undefined
  }

  /** The service wants fewer requests. */
  recordRejection(number: number, askedMs: number, now: number, fraction: number): void {
    const isProbe = this.#probe === number
    const rejections = isProbe ? (this.#block?.rejections ?? 0) + 1 : (this.#block?.rejections ?? 1)
    const backoff = backoffMs(rejections, askedMs, Math.max(askedMs, BLOCK_MS_MAX), fraction)
    // What was under way when it was shut is refused as well, and says nothing new. What it says for how long goes
    // before the instant at which a budget is full again.
    if (this.#block?.why === 'exhausted') this.#block = undefined
    this.#blockUntil(now + (isProbe ? Math.max(askedMs, backoff) : askedMs), 'rate-limited', rejections)
    this.#removeInFlight(number)
  }

  recordSuccess(number: number, now: number): void {
    if (this.#probe === number && this.#block !== undefined && this.#block.until <= now) {
      this.#block = undefined
      // It was said before, and has just been disproved.
      if (this.#report !== undefined && this.#report.asOf < number) this.#report = undefined
    }
    this.#removeInFlight(number)
  }

  /** There was no reply, or one that says nothing of this. */
  recordNoVerdict(number: number): void {
    this.#removeInFlight(number)
  }

  #removeInFlight(number: number): void {
    this.#inFlight.delete(number)
    if (this.#probe === number) this.#probe = undefined
  }

  #blockUntil(until: number, why: WindowBlock['why'], rejections: number): void {
    this.#block = {
      until: Math.max(until, this.#block?.until ?? until),
      why: why === 'rate-limited' ? why : (this.#block?.why ?? why),
      rejections: Math.max(rejections, this.#block?.rejections ?? 0),
    }
  }

  #reportAt(now: number): (WindowReport & { readonly asOf: number }) | undefined {
    return this.#report !== undefined && now < this.#report.until ? this.#report : undefined
  }

  #stopVerdict(why: StopVerdict['why'], until: number): StopVerdict {
    const { limit, remaining } = this.#report ?? {}
    return {
      is: 'stop',
      until,
      why,
      ...(limit === undefined ? {} : { limit }),
      ...(remaining === undefined ? {} : { remaining }),
    }
  }
}

function reserveOf({ limit }: WindowReport): number {
  return limit === undefined ? 0 : Math.ceil(limit * RESERVE_SHARE)
}

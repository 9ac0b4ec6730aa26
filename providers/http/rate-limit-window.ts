/**
 * RateLimitWindow tracks one resource that a service counts: its remaining budget, and whether it is blocked.
 *
 * A blocked resource admits no request until the instant that the service named. Then a single request goes first, the
 * probe, and the others follow once it was served. After each rejected probe the block lasts longer. Instants are
 * monotonic, and request numbers follow the order in which the requests started.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Urgency } from '../../core/provider-ports.ts'

/** `rate-limited`: the service rejected a request. `exhausted`: no budget is left. `reserved`: the rest is for people. */
export interface StopVerdict {
  readonly is: 'stop'
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted' | 'reserved'
  readonly limit?: number
  readonly remaining?: number
}

/** `wait`: a running request's reply will report the budget first. */
export type RateLimitVerdict = { readonly is: 'go' } | { readonly is: 'wait' } | StopVerdict

export interface WindowReport {
  readonly limit?: number
  readonly remaining: number
  /** Monotonic; the report is obsolete from then on. */
  readonly until: number
}

/** The share of a limit that background requests leave to people. */
export const RESERVE_SHARE = 0.2
/** The longest block by backoff, however often the probe was rejected. */
export const BLOCK_MS_MAX = 3_600_000

const GO: RateLimitVerdict = { is: 'go' }
const WAIT: RateLimitVerdict = { is: 'wait' }

interface WindowBlock {
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted'
  /** Consecutive rejections. */
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
    // Requests that started after the report draw from the same budget, and no reply counts them yet.
    const startedSince = [...this.#inFlight].filter((number) => number > report.asOf).length
    return report.remaining - startedSince <= floor ? WAIT : GO
  }

  /** Whether the window can be dropped without losing information. */
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
   * Stores a report. Replies arrive in any order, so the report for the latest request counts.
   *
   * @param isRejected true for "too many requests", whose own pause is applied by `recordRejection`
   */
  applyReport(number: number, report: WindowReport, isRejected: boolean): void {
    if (this.#report !== undefined && this.#report.asOf > number) return
    this.#report = { ...report, asOf: number }
    if (report.remaining <= 0) {
      if (!isRejected) this.#blockUntil(report.until, 'exhausted', 1)
    } else if (this.#block?.why === 'exhausted' && this.#probe !== number) this.#block = undefined
  }

  /** Records a "too many requests" reply. */
  recordRejection(number: number, askedMs: number, now: number, fraction: number): void {
    const isProbe = this.#probe === number
    const rejections = isProbe ? (this.#block?.rejections ?? 0) + 1 : (this.#block?.rejections ?? 1)
    const backoff = backoffMs(rejections, askedMs, Math.max(askedMs, BLOCK_MS_MAX), fraction)
    // Requests that were running when the block began are rejected as well and add no information. A stated pause
    // takes precedence over the instant at which the budget is full again.
    if (this.#block?.why === 'exhausted') this.#block = undefined
    this.#blockUntil(now + (isProbe ? Math.max(askedMs, backoff) : askedMs), 'rate-limited', rejections)
    this.#removeInFlight(number)
  }

  recordSuccess(number: number, now: number): void {
    if (this.#probe === number && this.#block !== undefined && this.#block.until <= now) {
      this.#block = undefined
      // The report is older than this request, and the served request disproves it.
      if (this.#report !== undefined && this.#report.asOf < number) this.#report = undefined
    }
    this.#removeInFlight(number)
  }

  /** Records a request without a reply, or with a reply that says nothing about this resource. */
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

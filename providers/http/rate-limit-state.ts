/**
 * RateLimitState knows what one credential may still send to one service.
 *
 * A service counts several resources and reports the remaining budget of each in its replies. A request draws from the
 * resources that the last similar reply named. A "too many requests" reply blocks the used-up resources, or all of them
 * when none is reported as used up. Reported names, numbers and instants come from outside and are clamped.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Urgency } from '../../core/ports/code-host.ts'
import type { BudgetReport } from './client-types.ts'

/** The part of a reply that concerns the budget. */
export interface ReplyOutcome {
  readonly reports: readonly BudgetReport[]
  /** Milliseconds for which no request may be sent; absent: the request was served. */
  readonly tooManyRequestsMs?: number
}

export interface ClockReading {
  readonly monotonic: number
  readonly wall: number
}

export interface ResourceStop extends StopVerdict {
  /** The blocking resource; empty for all resources. */
  readonly resource: string
}

interface ResourceReport extends WindowReport {
  readonly resource: string
}

/** Published once per change; `reserved` is published at most once per announced window. */
export type RateLimitEvent =
  | { readonly is: 'blocked' | 'reserved'; readonly resource: string; readonly until: number }
  | { readonly is: 'open'; readonly resource: string }

/** The shortest accepted pause. A smaller value, or a clock that runs ahead, would allow requests without a pause. */
const STATED_MS_MIN = 1_000
const STATED_MS_MAX = 24 * 3_600_000
/** The services in use count by the hour. A later reset is a clock error, most likely of this machine. */
const WINDOW_MS_MAX = 3_600_000
/** The window of a limit whose reset is not reported. */
const DEFAULT_WINDOW_MS = 60_000
const RESOURCES_MAX = 32
const RESOURCE_CHARS_MAX = 60
const ALL_RESOURCES = ''

export class RateLimitState {
  readonly #windows = new Map<string, RateLimitWindow>([[ALL_RESOURCES, new RateLimitWindow()]])
  /** By resource: until when its `reserved` event counts as published. */
  readonly #reservedUntil = new Map<string, number>()
  /** By requested resource: the resources that its last reply named. */
  readonly #reportedResources = new Map<string, readonly string[]>()
  readonly #inFlight = new Map<number, { readonly resource: string; readonly names: readonly string[] }>()
  readonly #publish: (event: RateLimitEvent) => void
  #last = 0

  constructor(publish: (event: RateLimitEvent) => void) {
    this.#publish = publish
  }

  verdict(
    resource: string,
    urgency: Urgency,
    now: number,
  ): Exclude<RateLimitVerdict, StopVerdict> | ResourceStop {
    let worst: Exclude<RateLimitVerdict, StopVerdict> | ResourceStop = { is: 'go' }
    for (const name of this.#resourcesFor(resource)) {
      const verdict = this.#windows.get(name)?.verdict(urgency, now) ?? { is: 'go' }
      if (verdict.is === 'wait' && worst.is === 'go') worst = verdict
      if (verdict.is === 'stop' && (worst.is !== 'stop' || worst.until < verdict.until))
        worst = { ...verdict, resource: name }
    }
    return worst
  }

  /** Returns the request's number, with which `recordEnd` must be called. */
  recordStart(resource: string): number {
    const number = ++this.#last
    const names = this.#resourcesFor(resource)
    for (const name of names) this.#windows.get(name)?.recordStart(number)
    this.#inFlight.set(number, { resource, names })
    return number
  }

  /** @param outcome undefined when no reply arrived */
  recordEnd(number: number, outcome: ReplyOutcome | undefined, now: ClockReading, fraction: number): void {
    const request = this.#inFlight.get(number)
    this.#inFlight.delete(number)
    if (request === undefined) return
    const blockedBefore = this.#blockedResources()
    const reports = (outcome?.reports ?? []).flatMap((report) => clampReport(report, now))
    const isRejected = outcome?.tooManyRequestsMs !== undefined
    this.#applyReports(number, request.resource, reports, isRejected)
    const rejecters = isRejected ? this.#rejectingResources(reports) : []
    for (const name of new Set([...request.names, ...rejecters])) {
      const window = this.#windows.get(name)
      if (rejecters.includes(name)) {
        const askedMs = Math.min(Math.max(outcome?.tooManyRequestsMs ?? 0, STATED_MS_MIN), STATED_MS_MAX)
        window?.recordRejection(number, askedMs, now.monotonic, fraction)
      } else if (outcome === undefined || rejecters.length > 0) window?.recordNoVerdict(number)
      else window?.recordSuccess(number, now.monotonic)
    }
    this.#publishChanges(blockedBefore, now.monotonic)
  }

  /** Whether some waiting requests may have to be refused. */
  mayRefuse(now: number): boolean {
    return [...this.#windows.values()].some((window) => window.isBlocked || window.isReserved(now))
  }

  hasNothingToRemember(now: number): boolean {
    return [...this.#windows.values()].every((window) => window.hasNothingToRemember(now))
  }

  #applyReports(
    number: number,
    resource: string,
    reports: readonly ResourceReport[],
    isRejected: boolean,
  ): void {
    if (reports.length === 0) return
    for (const { resource: name, ...report } of reports)
      this.#windowOf(name)?.applyReport(number, report, isRejected)
    this.#reportedResources.set(
      resource,
      reports.map((report) => report.resource),
    )
  }

  #rejectingResources(reports: readonly ResourceReport[]): readonly string[] {
    const spent = reports.filter(({ remaining, resource }) => remaining <= 0 && this.#windows.has(resource))
    return spent.length === 0 ? [ALL_RESOURCES] : spent.map(({ resource }) => resource)
  }

  #resourcesFor(resource: string): readonly string[] {
    const reported = this.#reportedResources.get(resource) ?? []
    return [...new Set([ALL_RESOURCES, resource, ...reported])].filter((name) => this.#windows.has(name))
  }

  /** Returns undefined once the replies named more resources than any real service has. */
  #windowOf(resource: string): RateLimitWindow | undefined {
    const known = this.#windows.get(resource)
    if (known !== undefined || this.#windows.size > RESOURCES_MAX) return known
    const window = new RateLimitWindow()
    this.#windows.set(resource, window)
    return window
  }

  #blockedResources(): ReadonlySet<string> {
    return new Set([...this.#windows].filter(([, window]) => window.isBlocked).map(([name]) => name))
  }

  #publishChanges(blockedBefore: ReadonlySet<string>, now: number): void {
    for (const [resource, window] of this.#windows) {
      const verdict = window.verdict('background', now)
      if (window.isBlocked && !blockedBefore.has(resource) && verdict.is === 'stop')
        this.#publish({ is: 'blocked', resource, until: verdict.until })
      if (!window.isBlocked && blockedBefore.has(resource)) this.#publish({ is: 'open', resource })
      // A budget that refills continuously crosses the reserve often; publish once per announced window.
      const isDue = now >= (this.#reservedUntil.get(resource) ?? now)
      if (verdict.is !== 'stop' || verdict.why !== 'reserved' || !isDue) continue
      this.#reservedUntil.set(resource, verdict.until)
      this.#publish({ is: 'reserved', resource, until: verdict.until })
    }
  }
}

/** Returns no report when the remaining budget is missing or unusable. */
function clampReport(report: BudgetReport, now: ClockReading): ResourceReport[] {
  const { resource, limit, remaining, resetsAt } = report
  if (remaining === undefined || !Number.isFinite(remaining) || resource === ALL_RESOURCES) return []
  const leftMs = resetsAt !== undefined && Number.isFinite(resetsAt) ? resetsAt - now.wall : DEFAULT_WINDOW_MS
  return [
    {
      resource: resource.slice(0, RESOURCE_CHARS_MAX),
      remaining,
      until: now.monotonic + Math.min(Math.max(leftMs, STATED_MS_MIN), WINDOW_MS_MAX),
      ...(limit !== undefined && Number.isFinite(limit) ? { limit } : {}),
    },
  ]
}

// ---- one window ----------------------------------------------------------------------------------------------------

/**
 * `rate-limited`: the service rejected a request. `exhausted`: no budget is left. `reserved`: the rest is for people.
 */
interface StopVerdict {
  readonly is: 'stop'
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted' | 'reserved'
  readonly limit?: number
  readonly remaining?: number
}

/** `wait`: a running request's reply will report the budget first. */
type RateLimitVerdict = { readonly is: 'go' } | { readonly is: 'wait' } | StopVerdict

interface WindowReport {
  readonly limit?: number
  readonly remaining: number
  /** Monotonic; the report is obsolete from then on. */
  readonly until: number
}

/** The share of a limit that background requests leave to people. */
const RESERVE_SHARE = 0.2
/** The longest block by backoff, however often the probe was rejected. */
const BLOCK_MS_MAX = 3_600_000

const GO: RateLimitVerdict = { is: 'go' }
const WAIT: RateLimitVerdict = { is: 'wait' }

interface WindowBlock {
  readonly until: number
  readonly why: 'rate-limited' | 'exhausted'
  /** Consecutive rejections. */
  readonly rejections: number
}

/**
 * RateLimitWindow tracks one resource that a service counts: its remaining budget, and whether it is blocked.
 *
 * A blocked resource admits no request until the instant that the service named. Then a single request goes first, the
 * probe, and the others follow once it was served. After each rejected probe the block lasts longer. Instants are
 * monotonic, and request numbers follow the order in which the requests started.
 */
class RateLimitWindow {
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

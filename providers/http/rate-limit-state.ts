/**
 * RateLimitState knows what one credential may still send to one service.
 *
 * A service counts several resources and reports the remaining budget of each in its replies. A request draws from the
 * resources that the last similar reply named. A "too many requests" reply blocks the used-up resources, or all of them
 * when none is reported as used up. Reported names, numbers and instants come from outside and are clamped.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { BudgetReport } from './client-types.ts'
import {
  type RateLimitVerdict,
  RateLimitWindow,
  type StopVerdict,
  type WindowReport,
} from './rate-limit-window.ts'

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

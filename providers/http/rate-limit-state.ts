/**
 * What one credential may still ask of one service.
 *
 * The service counts several things apart and says in its replies what is left of each. A request draws from what the
 * last reply to one like it named. A refusal for having asked too often shuts what is said to be used up, and where
 * nothing is, everything. Whatever else it says is a stranger's, so names, numbers and instants are kept within bounds.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { BudgetReport } from './client-types.ts'
import {
  type RateLimitVerdict,
  RateLimitWindow,
  type StopVerdict,
  type WindowReport,
} from './rate-limit-window.ts'

/** A reply, as far as the budget is concerned. */
export interface ReplyOutcome {
  readonly reports: readonly BudgetReport[]
  /** Milliseconds; absent: it was served. */
  readonly tooManyRequestsMs?: number
}

export interface ClockReading {
  readonly monotonic: number
  readonly wall: number
}

export interface ResourceStop extends StopVerdict {
  /** Empty: everything. */
  readonly resource: string
}

interface ResourceReport extends WindowReport {
  readonly resource: string
}

/** Told once for each time it becomes so, and of sparing once for each time that it was to last. */
export type RateLimitEvent =
  | { readonly is: 'blocked' | 'reserved'; readonly resource: string; readonly until: number }
  | { readonly is: 'open'; readonly resource: string }

/** A service that says less than this, or a clock that is ahead of it, would have us ask without a pause. */
const STATED_MS_MIN = 1_000
const STATED_MS_MAX = 24 * 3_600_000
/** Who is asked here counts by the hour. An instant beyond the next one is a clock's mistake, most likely our own. */
const WINDOW_MS_MAX = 3_600_000
/** Of a limit without an end. */
const DEFAULT_WINDOW_MS = 60_000
const RESOURCES_MAX = 32
const RESOURCE_CHARS_MAX = 60
const ALL_RESOURCES = ''

export class RateLimitState {
  readonly #windows = new Map<string, RateLimitWindow>([[ALL_RESOURCES, new RateLimitWindow()]])
  /** Till when what is left was said to be kept for people. */
  readonly #reservedUntil = new Map<string, number>()
  /** What the last reply to a request for the one thing named. */
  readonly #reportedResources = new Map<string, readonly string[]>()
  readonly #inFlight = new Map<number, { readonly resource: string; readonly gates: readonly string[] }>()
  readonly #publish: (tale: RateLimitEvent) => void
  #last = 0

  constructor(publish: (tale: RateLimitEvent) => void) {
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

  /** Answers its number. */
  recordStart(resource: string): number {
    const number = ++this.#last
    const names = this.#resourcesFor(resource)
    for (const name of names) this.#windows.get(name)?.recordStart(number)
    this.#inFlight.set(number, { resource, gates: names })
    return number
  }

  /** @param outcome undefined: there was no reply */
  recordEnd(number: number, outcome: ReplyOutcome | undefined, now: ClockReading, fraction: number): void {
    const request = this.#inFlight.get(number)
    this.#inFlight.delete(number)
    if (request === undefined) return
    const blockedBefore = this.#blockedResources()
    const reports = (outcome?.reports ?? []).flatMap((word) => clampReport(word, now))
    const isRejected = outcome?.tooManyRequestsMs !== undefined
    this.#applyReports(number, request.resource, reports, isRejected)
    const rejecters = isRejected ? this.#rejectingResources(reports) : []
    for (const name of new Set([...request.gates, ...rejecters])) {
      const window = this.#windows.get(name)
      if (rejecters.includes(name)) {
        const askedMs = Math.min(Math.max(outcome?.tooManyRequestsMs ?? 0, STATED_MS_MIN), STATED_MS_MAX)
        window?.recordRejection(number, askedMs, now.monotonic, fraction)
      } else if (outcome === undefined || rejecters.length > 0) window?.recordNoVerdict(number)
      else window?.recordSuccess(number, now.monotonic)
    }
    this.#publishChanges(blockedBefore, now.monotonic)
  }

  /** Somebody may have to be refused. */
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

  /** Undefined: it names more than any service has. */
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
      // A budget that fills up all the time comes and goes across the line.
      const isDue = now >= (this.#reservedUntil.get(resource) ?? now)
      if (verdict.is !== 'stop' || verdict.why !== 'reserved' || !isDue) continue
      this.#reservedUntil.set(resource, verdict.until)
      this.#publish({ is: 'reserved', resource, until: verdict.until })
    }
  }
}

/** None when it says nothing that could be held on to. */
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

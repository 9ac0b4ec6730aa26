/**
 * What one credential may still ask of one service.
 *
 * The service counts several things apart and says in its replies what is left of each. A request draws from what the
 * last reply to one like it named. A refusal for having asked too often shuts what is said to be used up, and where
 * nothing is, everything. Whatever else it says is a stranger's, so names, numbers and instants are kept within bounds.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { BudgetWord } from './client-types.ts'
import { BudgetGate, type Stop, type Verdict, type Word } from './rate-limit-window.ts'

/** A reply, as far as the budget is concerned. */
export interface BudgetNews {
  readonly words: readonly BudgetWord[]
  /** Milliseconds; absent: it was served. */
  readonly tooOftenMs?: number
}

export interface BudgetNow {
  readonly monotonic: number
  readonly wall: number
}

export interface NamedStop extends Stop {
  /** Empty: everything. */
  readonly resource: string
}

interface NamedWord extends Word {
  readonly resource: string
}

/** Told once for each time it becomes so, and of sparing once for each time that it was to last. */
export type BudgetTale =
  | { readonly is: 'closed' | 'sparing'; readonly resource: string; readonly until: number }
  | { readonly is: 'open'; readonly resource: string }

/** A service that says less than this, or a clock that is ahead of it, would have us ask without a pause. */
const TOLD_MS_MIN = 1_000
const TOLD_MS_MAX = 24 * 3_600_000
/** Who is asked here counts by the hour. An instant beyond the next one is a clock's mistake, most likely our own. */
const WINDOW_MS_MAX = 3_600_000
/** Of a limit without an end. */
const UNSAID_MS = 60_000
const RESOURCES_MAX = 32
const RESOURCE_CHARS_MAX = 60
const EVERYTHING = ''

export class Budget {
  readonly #gates = new Map<string, BudgetGate>([[EVERYTHING, new BudgetGate()]])
  /** Till when what is left was said to be kept for people. */
  readonly #sparing = new Map<string, number>()
  /** What the last reply to a request for the one thing named. */
  readonly #drawn = new Map<string, readonly string[]>()
  readonly #underWay = new Map<number, { readonly resource: string; readonly gates: readonly string[] }>()
  readonly #tell: (tale: BudgetTale) => void
  #last = 0

  constructor(tell: (tale: BudgetTale) => void) {
    this.#tell = tell
  }

  verdict(resource: string, urgency: Urgency, now: number): Exclude<Verdict, Stop> | NamedStop {
    let worst: Exclude<Verdict, Stop> | NamedStop = { is: 'go' }
    for (const name of this.#gatesOf(resource)) {
      const verdict = this.#gates.get(name)?.verdict(urgency, now) ?? { is: 'go' }
      if (verdict.is === 'wait' && worst.is === 'go') worst = verdict
      if (verdict.is === 'stop' && (worst.is !== 'stop' || worst.until < verdict.until))
        worst = { ...verdict, resource: name }
    }
    return worst
  }

  /** Answers its number. */
  begin(resource: string): number {
    const number = ++this.#last
    const gates = this.#gatesOf(resource)
    for (const name of gates) this.#gates.get(name)?.begin(number)
    this.#underWay.set(number, { resource, gates })
    return number
  }

  /** @param news undefined: there was no reply */
  end(number: number, news: BudgetNews | undefined, now: BudgetNow, fraction: number): void {
    const visit = this.#underWay.get(number)
    this.#underWay.delete(number)
    if (visit === undefined) return
    const before = this.#shutNames()
    const words = (news?.words ?? []).flatMap((word) => bounded(word, now))
    const isRefused = news?.tooOftenMs !== undefined
    this.#hear(number, visit.resource, words, isRefused)
    const refusers = isRefused ? this.#refusers(words) : []
    for (const name of new Set([...visit.gates, ...refusers])) {
      const gate = this.#gates.get(name)
      if (refusers.includes(name)) {
        const askedMs = Math.min(Math.max(news?.tooOftenMs ?? 0, TOLD_MS_MIN), TOLD_MS_MAX)
        gate?.refuse(number, askedMs, now.monotonic, fraction)
      } else if (news === undefined || refusers.length > 0) gate?.lose(number)
      else gate?.serve(number, now.monotonic)
    }
    this.#tellWhatChanged(before, now.monotonic)
  }

  /** Somebody may have to be refused. */
  isTight(now: number): boolean {
    return [...this.#gates.values()].some((gate) => gate.isShut || gate.isSparing(now))
  }

  isBlank(now: number): boolean {
    return [...this.#gates.values()].every((gate) => gate.isBlank(now))
  }

  #hear(number: number, resource: string, words: readonly NamedWord[], isRefused: boolean): void {
    if (words.length === 0) return
    for (const { resource: name, ...word } of words) this.#gateOf(name)?.hear(number, word, isRefused)
    this.#drawn.set(
      resource,
      words.map((word) => word.resource),
    )
  }

  #refusers(words: readonly NamedWord[]): readonly string[] {
    const spent = words.filter(({ remaining, resource }) => remaining <= 0 && this.#gates.has(resource))
    return spent.length === 0 ? [EVERYTHING] : spent.map(({ resource }) => resource)
  }

  #gatesOf(resource: string): readonly string[] {
    const named = this.#drawn.get(resource) ?? []
    return [...new Set([EVERYTHING, resource, ...named])].filter((name) => this.#gates.has(name))
  }

  /** Undefined: it names more than any service has. */
  #gateOf(resource: string): BudgetGate | undefined {
    const known = this.#gates.get(resource)
    if (known !== undefined || this.#gates.size > RESOURCES_MAX) return known
    const made = new BudgetGate()
    this.#gates.set(resource, made)
    return made
  }

  #shutNames(): ReadonlySet<string> {
    return new Set([...this.#gates].filter(([, gate]) => gate.isShut).map(([name]) => name))
  }

  #tellWhatChanged(before: ReadonlySet<string>, now: number): void {
    for (const [resource, gate] of this.#gates) {
      const stop = gate.verdict('background', now)
      if (gate.isShut && !before.has(resource) && stop.is === 'stop')
        this.#tell({ is: 'closed', resource, until: stop.until })
      if (!gate.isShut && before.has(resource)) this.#tell({ is: 'open', resource })
      // A budget that fills up all the time comes and goes across the line.
      const isNews = now >= (this.#sparing.get(resource) ?? now)
      if (stop.is !== 'stop' || stop.why !== 'sparing' || !isNews) continue
      this.#sparing.set(resource, stop.until)
      this.#tell({ is: 'sparing', resource, until: stop.until })
    }
  }
}

/** None when it says nothing that could be held on to. */
function bounded(word: BudgetWord, now: BudgetNow): NamedWord[] {
  const { resource, limit, remaining, resetsAt } = word
  if (remaining === undefined || !Number.isFinite(remaining) || resource === EVERYTHING) return []
  const leftMs = resetsAt !== undefined && Number.isFinite(resetsAt) ? resetsAt - now.wall : UNSAID_MS
  return [
    {
      resource: resource.slice(0, RESOURCE_CHARS_MAX),
      remaining,
      until: now.monotonic + Math.min(Math.max(leftMs, TOLD_MS_MIN), WINDOW_MS_MAX),
      ...(limit !== undefined && Number.isFinite(limit) ? { limit } : {}),
    },
  ]
}

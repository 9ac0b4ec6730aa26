/**
 * Where the requests of one credential wait for their turn.
 *
 * People go before what nobody waits for, each in the order of coming, and that never takes all of the room. Between
 * the beginnings of two writes there is a pause, and what a service counts by the minute is spread over minutes. While
 * the budget says no, what nobody waits for is refused at once, and a person as soon as the wait would be a long one;
 * then nothing is sent.
 */

import type { Cancel, Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Urgency } from '../../core/provider-ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { Manners } from './client-types.ts'
import { Minute } from './minute-quota.ts'
import { Budget, type BudgetNews, type BudgetTale, type NamedStop } from './rate-limit-state.ts'

export interface TurnstileParts {
  readonly manners: Pick<Manners, 'name' | 'atOnce' | 'writePauseMs' | 'minute'>
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

/** One request on its way, for all of its tries. */
export interface Visit {
  readonly resource: string
  readonly writes: boolean
  urgency: Urgency
  /** Monotonic; till then a person rather waits than be refused. */
  patientUntil: number
  /** Monotonic; it pauses by itself. */
  notBefore: number
}

interface Waiting {
  readonly visit: Visit
  readonly settle: (answer: Result<number>) => void
}

/** Further ones are refused. A page of all pull requests of all repositories is some thousands. */
const WAITING_MAX = 10_000
/** Of the room, what nobody waits for takes at most so much: a click finds a place. */
const BACKGROUND_SHARE = 0.75

export class Turnstile {
  readonly #parts: TurnstileParts
  readonly #budget: Budget
  readonly #minutes = new Map<string, Minute | undefined>()
  readonly #underWay = new Map<number, Urgency>()
  /** In the order of coming. */
  readonly #waiting = { person: new Set<Waiting>(), background: new Set<Waiting>() }
  #lastWrite = Number.NEGATIVE_INFINITY
  #wake: Cancel = () => {}
  #isClosed = false

  constructor(parts: TurnstileParts) {
    this.#parts = parts
    this.#budget = new Budget((tale) => this.#tell(tale))
  }

  /** Nothing would be lost by forgetting what was said of its budget. */
  get isBlank(): boolean {
    return this.#budget.isBlank(this.#parts.clock.monotonic())
  }

  visit(resource: string, urgency: Urgency, writes: boolean): Visit {
    const now = this.#parts.clock.monotonic()
    return { resource, urgency, writes, patientUntil: now + HTTP_PAUSE_MS_MAX, notBefore: now }
  }

  /** Answers the number with which it leaves. Having entered, it must leave. */
  async enter(visit: Visit): Promise<Result<number>> {
    const { name } = this.#parts.manners
    if (this.#isClosed) return no('unavailable', `${name} is not asked any more: this process is stopping`)
    if (this.#waiting.person.size + this.#waiting.background.size >= WAITING_MAX) {
      return no('unavailable', `${WAITING_MAX} requests to ${name} are waiting already; try again in a while`)
    }
    const answer = new Promise<Result<number>>((settle) =>
      this.#waiting[visit.urgency].add({ visit, settle }),
    )
    this.#look()
    return answer
  }

  /** @param news undefined: there was no reply */
  leave(number: number, news: BudgetNews | undefined): void {
    const { clock, random } = this.#parts
    this.#underWay.delete(number)
    const now = { monotonic: clock.monotonic(), wall: clock.now() }
    this.#budget.end(number, news, now, random.fraction())
    this.#look()
  }

  /** More was asked within this minute than is good: it would have to wait although the service has not refused it. */
  isCrowded(visit: Visit): boolean {
    const now = this.#parts.clock.monotonic()
    return (this.#minuteOf(visit.resource)?.earliest(visit, now) ?? now) > now
  }

  /** A person waits for it now. */
  hurry(visit: Visit): void {
    if (visit.urgency === 'person') return
    visit.urgency = 'person'
    for (const waiting of this.#waiting.background) {
      if (waiting.visit !== visit) continue
      this.#waiting.background.delete(waiting)
      this.#waiting.person.add(waiting)
    }
    visit.patientUntil = this.#parts.clock.monotonic() + HTTP_PAUSE_MS_MAX
    this.#look()
  }

  /** Whoever waits is refused; what is under way goes on. */
  close(): void {
    this.#isClosed = true
    this.#wake()
    const { name } = this.#parts.manners
    for (const queue of [this.#waiting.person, this.#waiting.background]) {
      for (const { settle } of queue)
        settle(no('unavailable', `${name} is not asked any more: this process is stopping`))
      queue.clear()
    }
  }

  // ---- whose turn it is ----------------------------------------------------------------------------------------------

  #look(): void {
    this.#wake()
    const now = this.#parts.clock.monotonic()
    // Only then somebody is to be refused for whom there is no room either.
    const isTight = this.#budget.isTight(now)
    let wakeAt = Number.POSITIVE_INFINITY
    for (const urgency of ['person', 'background'] as const) {
      for (const waiting of this.#waiting[urgency]) {
        if (!isTight && !this.#hasRoom(urgency)) break
        const until = this.#turnOf(waiting, now)
        if (until === undefined) this.#waiting[urgency].delete(waiting)
        else wakeAt = Math.min(wakeAt, until)
      }
    }
    if (wakeAt === Number.POSITIVE_INFINITY || this.#isClosed) return
    this.#wake = this.#parts.clock.after(Math.max(1, wakeAt - now), () => this.#look())
  }

  /** Undefined: it waits no more. Else till when, which has no end while a reply is to come first. */
  #turnOf({ visit, settle }: Waiting, now: number): number | undefined {
    const verdict = this.#budget.verdict(visit.resource, visit.urgency, now)
    if (verdict.is === 'stop') {
      if (visit.urgency === 'person' && verdict.until <= visit.patientUntil) return verdict.until
      settle(this.#refusal(verdict))
      return undefined
    }
    if (verdict.is === 'wait' || !this.#hasRoom(visit.urgency)) return Number.POSITIVE_INFINITY
    const free = this.#minuteOf(visit.resource)?.earliest(visit, now) ?? now
    if (visit.urgency === 'person' && free > Math.max(now, visit.patientUntil)) {
      settle(this.#crowdedOut(free))
      return undefined
    }
    const from = Math.max(
      free,
      visit.notBefore,
      visit.writes ? this.#lastWrite + this.#parts.manners.writePauseMs : now,
    )
    if (now < from) return from
    settle(yes(this.#begin(visit, now)))
    return undefined
  }

  #begin(visit: Visit, now: number): number {
    const number = this.#budget.begin(visit.resource)
    this.#underWay.set(number, visit.urgency)
    this.#minuteOf(visit.resource)?.begin(visit, now)
    if (visit.writes) this.#lastWrite = now
    return number
  }

  #minuteOf(resource: string): Minute | undefined {
    if (!this.#minutes.has(resource)) {
      const quota = this.#parts.manners.minute?.(resource)
      this.#minutes.set(resource, quota === undefined ? undefined : new Minute(quota))
    }
    return this.#minutes.get(resource)
  }

  #hasRoom(urgency: Urgency): boolean {
    const { atOnce } = this.#parts.manners
    if (this.#underWay.size >= atOnce) return false
    if (urgency === 'person') return true
    const background = [...this.#underWay.values()].filter((one) => one === 'background').length
    return background < Math.max(1, Math.floor(atOnce * BACKGROUND_SHARE))
  }

  // ---- what is said of it ----------------------------------------------------------------------------------------------

  #refusal({ why, until, resource, limit, remaining }: NamedStop): Refused {
    const { name } = this.#parts.manners
    const at = this.#instant(until)
    if (why === 'told')
      return no('unavailable', `${name} wants fewer requests; nothing is asked before ${at}`)
    const left = `${remaining ?? 0}${limit === undefined ? '' : ` of ${limit}`} (${printable(resource)})`
    if (why === 'spent') {
      return no(
        'unavailable',
        `${name} takes no more requests of this credential: ${left} are left until ${at}`,
      )
    }
    return no('unavailable', `${name}: ${left} are left until ${at}; they are kept for what people ask for`)
  }

  #crowdedOut(until: number): Refused {
    const { name } = this.#parts.manners
    return no(
      'unavailable',
      `as much was asked of ${name} as it takes within a minute; try again after ${this.#instant(until)}`,
    )
  }

  #tell(tale: BudgetTale): void {
    const { log, manners } = this.#parts
    const about = { service: manners.name, resource: printable(tale.resource) || 'everything' }
    if (tale.is === 'open') {
      log.info(about, 'a service is asked again')
      return
    }
    const says =
      tale.is === 'closed'
        ? 'a service is not asked for a while'
        : 'what is left of a budget is kept for people'
    log.info({ ...about, until: this.#instant(tale.until) }, says)
  }

  /** Rounded up to the second. */
  #instant(monotonic: number): string {
    const { clock } = this.#parts
    const wall = Math.ceil((clock.now() + Math.max(0, monotonic - clock.monotonic())) / 1_000) * 1_000
    return `${new Date(wall).toISOString().slice(0, 19).replace('T', ' ')} UTC`
  }
}

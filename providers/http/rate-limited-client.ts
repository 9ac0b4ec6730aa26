/**
 * What one courier does with an errand: waits for its turn, carries it, and brings the reply.
 *
 * A refusal for having asked too often is carried again as soon as it may be, if that is soon; an outage only for a
 * plain question. A credential that is not taken any more is, in the background, tried only once in a while. Two who
 * ask the same at once share one reply, unless something was changed in between: whoever has just changed a thing must
 * not be shown how it was.
 */
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import type { Errand, Manners } from './client-types.ts'
import { type KeptReplies, keyOf, markOf, refreshed } from './etag-cache.ts'
import { type Http, type HttpReply, type HttpRequest, pauseBefore, retryAfterMs, triesOf } from './http.ts'
import type { BudgetNews } from './rate-limit-state.ts'
import { Turnstile, type Visit } from './request-queue.ts'

export interface RoundsParts {
  readonly http: Pick<Http, 'ask'>
  readonly manners: Manners
  /** Whose replies are kept, as a hash. */
  readonly owner: string
  readonly kept: KeptReplies
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

interface Flight {
  readonly visit: Visit
  readonly reply: Promise<Result<HttpReply>>
}

/** However much is asked: an answer that was good within this time is as good as another when no more may be asked. */
const PROVEN_MS = 60_000
const OUTAGE = 503
/** Where a service wants fewer requests and does not say for how long. */
const UNSAID_MS = 60_000
/** Many refusals of a credential look like an attack, and some services shut out the whole account for them. */
export const DEAD_MS = 15 * 60_000

/** The credential was not taken. */
interface Dead {
  readonly reply: Result<HttpReply>
  /** Monotonic; then what nobody waits for tries it once more. */
  until: number
}

export class Rounds {
  readonly #parts: RoundsParts
  readonly #turnstile: Turnstile
  readonly #flights = new Map<string, Flight>()
  /** When the kept reply was last known to hold; oldest first, and none from before something was changed. */
  readonly #proven = new Map<string, number>()
  #dead: Dead | undefined
  #changes = 0
  #asked = 0

  constructor(parts: RoundsParts) {
    this.#parts = parts
    this.#turnstile = new Turnstile(parts)
  }

  get isIdle(): boolean {
    return this.#asked === 0
  }

  get isBlank(): boolean {
    return this.isIdle && this.#turnstile.isBlank
  }

  close(): void {
    this.#turnstile.close()
  }

  async ask(errand: Errand): Promise<Result<HttpReply>> {
    this.#asked += 1
    try {
      return await this.#take(errand)
    } finally {
      this.#asked -= 1
    }
  }

  async #take(errand: Errand): Promise<Result<HttpReply>> {
    if (errand.kept === true && errand.method === 'GET') return this.#share(errand)
    const visit = this.#visit(errand)
    if (!visit.writes) return this.#carry(errand, visit)
    this.#noteChange()
    const reply = await this.#carry(errand, visit)
    this.#noteChange()
    return reply
  }

  #noteChange(): void {
    this.#flights.clear()
    this.#proven.clear()
    this.#changes += 1
  }

  #visit(errand: Errand): Visit {
    const { manners } = this.#parts
    const writes = errand.writes ?? errand.method !== 'GET'
    return this.#turnstile.visit(manners.resourceOf(errand), errand.urgency, writes)
  }

  // ---- replies that are kept -------------------------------------------------------------------------------------------

  #share(errand: Errand): Promise<Result<HttpReply>> {
    const key = keyOf(this.#parts.owner, errand, errand.gist?.name)
    const flying = this.#flights.get(key)
    if (flying !== undefined) {
      if (errand.urgency === 'person') this.#turnstile.hurry(flying.visit)
      return flying.reply
    }
    const visit = this.#visit(errand)
    const flight = { visit, reply: this.#revalidate(key, errand, visit) }
    this.#flights.set(key, flight)
    const land = () => void (this.#flights.get(key) === flight && this.#flights.delete(key))
    flight.reply.then(land, land)
    return flight.reply
  }

  async #revalidate(key: string, errand: Errand, visit: Visit): Promise<Result<HttpReply>> {
    const { kept } = this.#parts
    const earlier = kept.get(key)
    if (earlier !== undefined && this.#isProven(key) && this.#turnstile.isCrowded(visit))
      return { ok: true, value: earlier }
    const changes = this.#changes
    const mark = earlier === undefined ? undefined : markOf(earlier)
    const headers = mark === undefined ? errand.headers : { ...errand.headers, 'if-none-match': mark }
    const reply = await this.#carry({ ...errand, headers }, visit)
    if (!reply.ok) return reply
    const isUnchanged = reply.value.status === 304 && earlier !== undefined
    const now = isUnchanged ? refreshed(earlier, reply.value) : inShort(reply.value, errand)
    if (now.status === 200) kept.put(key, now)
    if (now.status === 200 && changes === this.#changes) this.#prove(key)
    else this.#proven.delete(key)
    return { ok: true, value: now }
  }

  #isProven(key: string): boolean {
    const at = this.#proven.get(key)
    return at !== undefined && this.#parts.clock.monotonic() - at < PROVEN_MS
  }

  #prove(key: string): void {
    const now = this.#parts.clock.monotonic()
    this.#proven.delete(key)
    this.#proven.set(key, now)
    for (const [oldest, at] of this.#proven) {
      if (now - at < PROVEN_MS) return
      this.#proven.delete(oldest)
    }
  }

  // ---- on the way ------------------------------------------------------------------------------------------------------

  async #carry(errand: Errand, visit: Visit): Promise<Result<HttpReply>> {
    for (let tries = 1; ; tries++) {
      const { answer, isTooOften } = await this.#once(errand, visit)
      if (isTooOften) {
        // With nothing left to try, whoever comes back is only told until when.
        if (tries >= triesOf(errand)) visit.patientUntil = Number.NEGATIVE_INFINITY
        continue
      }
      const waitMs = tries < triesOf(errand) ? this.#pauseBefore(answer, errand, visit, tries) : undefined
      if (waitMs === undefined) return answer
      visit.notBefore = this.#parts.clock.monotonic() + waitMs
    }
  }

  async #once(
    errand: Errand,
    visit: Visit,
  ): Promise<{ readonly answer: Result<HttpReply>; readonly isTooOften: boolean }> {
    const pass = await this.#turnstile.enter(visit)
    if (!pass.ok) return { answer: pass, isTooOften: false }
    let news: BudgetNews | undefined
    try {
      const known = this.#knownRefusal(visit)
      if (known !== undefined) return { answer: known, isTooOften: false }
      const answer = await this.#parts.http.ask(requestOf(errand))
      if (answer.ok) {
        news = this.#newsOf(answer.value, errand)
        this.#noteWhetherTaken(answer.value, errand)
      }
      return { answer, isTooOften: news?.tooOftenMs !== undefined && !isOutage(answer) }
    } finally {
      this.#turnstile.leave(pass.value, news)
    }
  }

  /** A person finds out anew each time. */
  #knownRefusal({ urgency }: Visit): Result<HttpReply> | undefined {
    const now = this.#parts.clock.monotonic()
    if (this.#dead === undefined || urgency === 'person') return undefined
    if (now < this.#dead.until) return this.#dead.reply
    this.#dead.until = now + DEAD_MS
    return undefined
  }

  #noteWhetherTaken(reply: HttpReply, { headers }: Errand): void {
    const isRefused = reply.status === 401 && headers.authorization !== undefined
    const until = this.#parts.clock.monotonic() + DEAD_MS
    this.#dead = isRefused ? { reply: { ok: true, value: reply }, until } : undefined
  }

  #newsOf(reply: HttpReply, errand: Errand): BudgetNews {
    const { manners, clock } = this.#parts
    const now = clock.now()
    const tooOftenMs = manners.tooOften(reply, now) ?? plainlyTooOften(reply, now) ?? outageMs(reply, now)
    const words = manners.budgets(reply, errand)
    return tooOftenMs === undefined ? { words } : { words, tooOftenMs }
  }

  /** A write may have been done although nobody said so. */
  #pauseBefore(
    answer: Result<HttpReply>,
    errand: Errand,
    { writes }: Visit,
    tries: number,
  ): number | undefined {
    return writes || errand.method !== 'GET' ? undefined : pauseBefore(answer, errand, this.#parts, tries)
  }
}

/** Whatever stands in front of a service says it in the words that everybody understands. */
function plainlyTooOften({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = retryAfterMs(headers['retry-after'], now)
  return status === 429 ? (asked ?? UNSAID_MS) : status === 403 ? asked : undefined
}

/** What came during an outage was maybe done, so it is not carried again by itself. */
const isOutage = (answer: Result<HttpReply>): boolean => answer.ok && answer.value.status === OUTAGE

/** One whose end is named is nobody's to be asked in; a short one is waited for. */
function outageMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = status === OUTAGE ? retryAfterMs(headers['retry-after'], now) : undefined
  return asked !== undefined && asked > HTTP_PAUSE_MS_MAX ? asked : undefined
}

function inShort(reply: HttpReply, { gist }: Errand): HttpReply {
  return reply.status === 200 && gist !== undefined ? { ...reply, text: gist.of(reply.text) } : reply
}

/** How often it is sent is decided here. */
function requestOf({ method, url, headers, body, outside }: Errand): HttpRequest {
  return {
    method,
    url,
    headers,
    tries: 1,
    ...(body === undefined ? {} : { body }),
    ...(outside === undefined ? {} : { outside }),
  }
}

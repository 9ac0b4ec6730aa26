/**
 * What is known of Linear's tickets, kept from one look to the next.
 *
 * The first look reads all that could be eligible. The following ones ask only what has changed since, by the service's
 * own times, and read that; tickets that stopped being eligible change too, and are shown as they are then. Some
 * changes move no time: a new blocker is asked for each time, for the rest (a project's new name) all is read again once
 * in a while, the more seldom the dearer it is. A long reading that was interrupted goes on where it was.
 *
 * Shown besides are those that were wished for, and those that hold up one of the others.
 */
import type { Clock, TrackerListing, TrackerQuery } from '../../../core/ports.ts'
import { type Refused, type Result, yes } from '../../../core/result.ts'
import { TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import { type Filter, isUuid, scopeOf } from './eligible-filter.ts'
import { KnownIssues } from './issue-cache.ts'
import { Pace } from './pace.ts'
import { LINEAR_TICKETS_MAX, Reading } from './paged-read.ts'
import type { Changes, IssueReader } from './reader.ts'

/** Known in all, before it is sorted out by reading everything again. */
const KNOWN_MAX = 4 * LINEAR_TICKETS_MAX
/** Single tickets that one look reads; the others are for the next. */
const SINGLE_MAX = 250
/** A change may become visible a little after its time. */
const MARGIN_MS = 60_000
const WHOLE_MS_A_PAGE = 10 * 60_000
const WHOLE_MS_MAX = 4 * 3_600_000
const WHOLE_RETRY_MS = 2 * 60_000
/** In the long run, half of the smallest quota of requests. Looks beyond that find what the one before found. */
const LOOK_MS = 6_000
const LOOKS_AT_ONCE = 10
/** Where nothing was ever changed. */
const EVER = new Date(0).toISOString()

export class LinearLooks {
  readonly #reader: IssueReader
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #pace: Pace
  #known = new KnownIssues()
  /** What the last reading of everything could not tell. */
  #problems: readonly string[] = []
  /** What the last look could not tell. */
  #passing: readonly string[] = []
  #failure: Refused | undefined
  #scope = ''
  /** Up to when every change is known; undefined when all is to be read. */
  #mark: string | undefined
  #wholeDue = 0
  #reading: Reading | undefined

  constructor(reader: IssueReader, clock: Pick<Clock, 'monotonic'>) {
    this.#reader = reader
    this.#clock = clock
    this.#pace = new Pace(LOOK_MS, LOOKS_AT_ONCE, clock.monotonic())
  }

  async look({ rules, tickets }: TrackerQuery): Promise<Result<TrackerListing>> {
    const wished = new Set(tickets.filter(isUuid))
    if (!this.#isTime(wished)) return this.#failure ?? yes(this.#picture())
    const scope = scopeOf(rules)
    if (JSON.stringify(scope) !== this.#scope) this.#begin(JSON.stringify(scope))
    const looked = await this.#look(scope, wished)
    this.#failure = looked.ok ? undefined : looked
    return looked.ok ? yes(this.#picture()) : looked
  }

  /** We moved it ourselves. It is read again all the same: somebody may have changed something else just before. */
  moved(ticketId: string, state: string, closed: boolean): void {
    this.#known.moved(ticketId, state, closed)
  }

  #isTime(wished: ReadonlySet<string>): boolean {
    if (this.#pace.take(this.#clock.monotonic())) return true
    return this.#failure === undefined && this.#known.unknown(wished).length > 0
  }

  #picture(): TrackerListing {
    const problems = [...new Set([...this.#problems, ...this.#passing, ...this.#known.notes()])]
    return { tickets: this.#known.tickets(), problems: problems.slice(0, TICKET_PROBLEMS_MAX) }
  }

  /** Other rules: what is known stays known, but what could be eligible has to be found anew. */
  #begin(scope: string): void {
    this.#scope = scope
    this.#mark = undefined
    this.#reading = undefined
    this.#known.unlistAll()
  }

  async #look(scope: Filter, wished: ReadonlySet<string>): Promise<Result<unknown>> {
    if (this.#mark === undefined) return this.#readAll(scope, wished)
    if (this.#clock.monotonic() < this.#wholeDue) {
      const followed = await this.#follow(scope, this.#mark, wished)
      if (!followed.ok || followed.value === 'followed') return followed
    }
    const read = await this.#readAll(scope, wished)
    // Meanwhile the changes are followed.
    if (!read.ok) this.#wholeDue = this.#clock.monotonic() + WHOLE_RETRY_MS
    return read
  }

  // ---- what changed --------------------------------------------------------------------------------------------------

  async #follow(
    scope: Filter,
    mark: string,
    wished: ReadonlySet<string>,
  ): Promise<Result<'followed' | 'too much'>> {
    const since = new Date(Math.max(0, Date.parse(mark) - MARGIN_MS)).toISOString()
    const asked = await this.#reader.changes(scope, since, mark)
    if (!asked.ok) return asked
    const changes = asked.value
    if (changes.isCut) return yes('too much')
    const read = await this.#readChanged(changes, wished)
    if (!read.ok) return read
    this.#passing = [...changes.problems, ...read.value]
    // What an error kept from us is asked for again.
    if (this.#passing.length === 0) this.#mark = newest(mark, changes)
    if (this.#known.size > KNOWN_MAX) this.#wholeDue = 0
    return yes('followed')
  }

  async #readChanged(changes: Changes, wished: ReadonlySet<string>): Promise<Result<string[]>> {
    const { entered, touched, blocked } = changes
    for (const id of touched.keys()) this.#known.relist(id, entered.has(id))
    const waitedFor = this.#known.waitedFor()
    const stale = [...touched, ...entered].filter(([id, updatedAt]) => {
      const isCaredFor = this.#known.has(id) || entered.has(id) || waitedFor.has(id)
      return isCaredFor && this.#known.isStale(id, updatedAt)
    })
    const others = [...this.#known.unknown(wished), ...this.#known.doubted(blocked)].slice(0, SINGLE_MAX)
    const ids = [...stale.map(([id]) => id), ...others]
    const isListed = (id: string) => entered.has(id) || this.#known.isListed(id)
    const read = await this.#readSingle(ids, wished, this.#known, isListed)
    if (read.ok) this.#known.dispute(blocked)
    return read
  }

  // ---- everything ----------------------------------------------------------------------------------------------------

  async #readAll(scope: Filter, wished: ReadonlySet<string>): Promise<Result<void>> {
    const reading = this.#reading ?? new Reading()
    this.#reading = reading
    const paged = await this.#readPages(scope, reading)
    if (!paged.ok) return paged
    const others = await this.#readOthers(reading, wished)
    if (!others.ok) return others
    reading.known.keepNewer(this.#known)
    this.#known = reading.known
    this.#problems = reading.problems
    this.#passing = others.value
    this.#mark = reading.mark ?? EVER
    this.#wholeDue = this.#clock.monotonic() + Math.min(WHOLE_MS_MAX, reading.pages * WHOLE_MS_A_PAGE)
    this.#reading = undefined
    return yes(undefined)
  }

  async #readPages(scope: Filter, reading: Reading): Promise<Result<void>> {
    while (!reading.isDone) {
      const page = await this.#reader.page(scope, reading.after)
      // What it does not take may be where we left off.
      if (!page.ok && page.refusal.kind === 'invalid') this.#reading = undefined
      if (!page.ok) return page
      reading.take(page.value)
    }
    return yes(undefined)
  }

  /**
   * Wished for, or no longer listed: these are read one by one, so that it is seen what became of them. What was not
   * listed before either, is forgotten.
   */
  async #readOthers(reading: Reading, wished: ReadonlySet<string>): Promise<Result<string[]>> {
    const left = this.#known.listedBeyond(reading.known)
    if (reading.isPatchy) reading.known.keep(left, this.#known)
    const ids = reading.known.unknown([...left, ...wished])
    return this.#readSingle(ids.slice(0, SINGLE_MAX), wished, reading.known, () => false)
  }

  // ---- single ones ---------------------------------------------------------------------------------------------------

  /** And then those that hold them up. Answers what could not be told. */
  async #readSingle(
    ids: readonly string[],
    wished: ReadonlySet<string>,
    into: KnownIssues,
    isListed: (id: string) => boolean,
  ): Promise<Result<string[]>> {
    const read = await this.#readInto(into, [...new Set(ids)], isListed)
    if (!read.ok) return read
    const blockers = into.unknownBlockers(wished).slice(0, SINGLE_MAX)
    const more = await this.#readInto(into, blockers, () => false)
    return more.ok ? yes([...read.value, ...more.value]) : more
  }

  async #readInto(
    into: KnownIssues,
    ids: readonly string[],
    isListed: (id: string) => boolean,
  ): Promise<Result<readonly string[]>> {
    if (ids.length === 0) return yes([])
    const read = await this.#reader.issues(ids)
    if (!read.ok) return read
    into.put(read.value, isListed)
    into.lose(read.value.missing, this.#known)
    return yes(read.value.problems)
  }
}

/** Of one form, so they compare as texts. */
function newest(mark: string, { touched }: Changes): string {
  return [...touched.values()].reduce((latest, one) => (one > latest ? one : latest), mark)
}

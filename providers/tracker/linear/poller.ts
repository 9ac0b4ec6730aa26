/**
 * Keeps a cache of Linear's tickets up to date from poll to poll.
 *
 * The first poll reads all issues that may be eligible; later polls read only what changed since, by Linear's clock.
 * Issues that leave the filter change too, and stay visible. Some changes do not touch an issue's time. New blockers
 * are therefore queried each time, and everything is read again at intervals that grow with its cost. An interrupted
 * full read continues at its last page. The listing includes requested tickets and the blockers of all these.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { TrackerListing, TrackerQuery } from '../../../core/ports/tracker.ts'
import { type Refused, type Result, yes } from '../../../core/result.ts'
import { TokenBucket } from '../../../core/token-bucket.ts'
import { TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import { buildScope, isUuid, type LinearFilter } from './issue.ts'
import { IssueCache } from './issue-cache.ts'
import type { IssueChanges, IssueReader, IssuesPage } from './reader.ts'

/** Limit for issues of a full read, which cost about 60 points each. */
const LINEAR_TICKETS_MAX = 1_000
/** Limit for cached issues; beyond it, a full read replaces the cache. */
const CACHED_ISSUES_MAX = 4 * LINEAR_TICKETS_MAX
/** Issues that one poll reads by id; the next poll reads further ones. */
const READS_BY_ID_MAX = 250
/** Linear may show a change slightly after its time stamp. */
const SINCE_MARGIN_MS = 60_000
const FULL_READ_INTERVAL_MS_PER_PAGE = 10 * 60_000
const FULL_READ_INTERVAL_MS_MAX = 4 * 3_600_000
const FULL_READ_RETRY_MS = 2 * 60_000
/** Uses half of the smallest request quota in the long run. Further polls answer from the cache. */
const POLL_INTERVAL_MS = 6_000
const POLL_BURST_MAX = 10
/** Start of the changes when Linear holds no issue yet. */
const EPOCH = new Date(0).toISOString()

export class LinearPoller {
  readonly #reader: IssueReader
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #rateLimiter: TokenBucket
  #cache = new IssueCache()
  /** Problems of the last full read. */
  #fullReadProblems: readonly string[] = []
  /** Problems of the last poll. */
  #pollProblems: readonly string[] = []
  #lastRefusal: Refused | undefined
  #scope = ''
  /** Instant up to which all changes are known; undefined when a full read is due. */
  #syncedUntil: string | undefined
  #fullReadDue = 0
  #pagedRead: PagedRead | undefined

  constructor(reader: IssueReader, clock: Pick<Clock, 'monotonic'>) {
    this.#reader = reader
    this.#clock = clock
    this.#rateLimiter = new TokenBucket(() => clock.monotonic(), POLL_BURST_MAX, 1_000 / POLL_INTERVAL_MS)
  }

  async poll({ rules, tickets }: TrackerQuery): Promise<Result<TrackerListing>> {
    const requested = new Set(tickets.filter(isUuid))
    if (!this.#mayPoll(requested)) return this.#lastRefusal ?? yes(this.#createListing())
    const scope = buildScope(rules)
    if (JSON.stringify(scope) !== this.#scope) this.#startScope(JSON.stringify(scope))
    const polled = await this.#poll(scope, requested)
    this.#lastRefusal = polled.ok ? undefined : polled
    return polled.ok ? yes(this.#createListing()) : polled
  }

  /** Applies our own move to the cache. The issue is still read again, because it may have other changes. */
  applyMove(ticketId: string, state: string, closed: boolean): void {
    this.#cache.applyMove(ticketId, state, closed)
  }

  #mayPoll(requested: ReadonlySet<string>): boolean {
    if (this.#rateLimiter.take(1)) return true
    return this.#lastRefusal === undefined && this.#cache.selectUnknown(requested).length > 0
  }

  #createListing(): TrackerListing {
    const problems = [
      ...new Set([...this.#fullReadProblems, ...this.#pollProblems, ...this.#cache.issueProblems()]),
    ]
    return { tickets: this.#cache.tickets(), problems: problems.slice(0, TICKET_PROBLEMS_MAX) }
  }

  /** New rules keep the cache, but the listed issues have to be found again. */
  #startScope(scope: string): void {
    this.#scope = scope
    this.#syncedUntil = undefined
    this.#pagedRead = undefined
    this.#cache.unlistAll()
  }

  async #poll(scope: LinearFilter, requested: ReadonlySet<string>): Promise<Result<unknown>> {
    if (this.#syncedUntil === undefined) return this.#readAll(scope, requested)
    if (this.#clock.monotonic() < this.#fullReadDue) {
      const applied = await this.#applyChanges(scope, this.#syncedUntil, requested)
      if (!applied.ok || applied.value === 'applied') return applied
    }
    const read = await this.#readAll(scope, requested)
    // Until the retry, changes are still read.
    if (!read.ok) this.#fullReadDue = this.#clock.monotonic() + FULL_READ_RETRY_MS
    return read
  }

  // ---- changes ------------------------------------------------------------------------------------------------------

  async #applyChanges(
    scope: LinearFilter,
    syncedUntil: string,
    requested: ReadonlySet<string>,
  ): Promise<Result<'applied' | 'too many'>> {
    const since = new Date(Math.max(0, Date.parse(syncedUntil) - SINCE_MARGIN_MS)).toISOString()
    const reply = await this.#reader.readChanges(scope, since, syncedUntil)
    if (!reply.ok) return reply
    const changes = reply.value
    if (changes.isTruncated) return yes('too many')
    const read = await this.#readChanged(changes, requested)
    if (!read.ok) return read
    this.#pollProblems = [...changes.problems, ...read.value]
    // After errors the same changes are requested again.
    if (this.#pollProblems.length === 0) this.#syncedUntil = newestChange(syncedUntil, changes)
    if (this.#cache.size > CACHED_ISSUES_MAX) this.#fullReadDue = 0
    return yes('applied')
  }

  async #readChanged(changes: IssueChanges, requested: ReadonlySet<string>): Promise<Result<string[]>> {
    const { entered, touched, blocked } = changes
    for (const id of touched.keys()) this.#cache.setListed(id, entered.has(id))
    const blockerIds = this.#cache.blockerIds()
    const stale = [...touched, ...entered].filter(([id, updatedAt]) => {
      const isRelevant = this.#cache.has(id) || entered.has(id) || blockerIds.has(id)
      return isRelevant && this.#cache.isStale(id, updatedAt)
    })
    const others = [...this.#cache.selectUnknown(requested), ...this.#cache.selectDoubtful(blocked)].slice(
      0,
      READS_BY_ID_MAX,
    )
    const ids = [...stale.map(([id]) => id), ...others]
    const isListed = (id: string) => entered.has(id) || this.#cache.isListed(id)
    const read = await this.#readByIds(ids, requested, this.#cache, isListed)
    if (read.ok) this.#cache.markDisputed(blocked)
    return read
  }

  // ---- full reads ---------------------------------------------------------------------------------------------------

  async #readAll(scope: LinearFilter, requested: ReadonlySet<string>): Promise<Result<void>> {
    const pagedRead = this.#pagedRead ?? new PagedRead()
    this.#pagedRead = pagedRead
    const paged = await this.#readPages(scope, pagedRead)
    if (!paged.ok) return paged
    const unlisted = await this.#readUnlisted(pagedRead, requested)
    if (!unlisted.ok) return unlisted
    pagedRead.cache.copyNewer(this.#cache)
    this.#cache = pagedRead.cache
    this.#fullReadProblems = pagedRead.problems
    this.#pollProblems = unlisted.value
    this.#syncedUntil = pagedRead.newestChange ?? EPOCH
    this.#fullReadDue =
      this.#clock.monotonic() +
      Math.min(FULL_READ_INTERVAL_MS_MAX, pagedRead.pageCount * FULL_READ_INTERVAL_MS_PER_PAGE)
    this.#pagedRead = undefined
    return yes(undefined)
  }

  async #readPages(scope: LinearFilter, pagedRead: PagedRead): Promise<Result<void>> {
    while (!pagedRead.isDone) {
      const page = await this.#reader.readPage(scope, pagedRead.cursor)
      // Linear may have refused the cursor, so start over.
      if (!page.ok && page.refusal.kind === 'invalid') this.#pagedRead = undefined
      if (!page.ok) return page
      pagedRead.addPage(page.value)
    }
    return yes(undefined)
  }

  /**
   * Reads requested issues, and listed issues that the full read lacks, to learn their state. Issues that were not
   * listed before are dropped.
   */
  async #readUnlisted(pagedRead: PagedRead, requested: ReadonlySet<string>): Promise<Result<string[]>> {
    const unlistedIds = this.#cache.selectListedMissingFrom(pagedRead.cache)
    if (pagedRead.hasProblems) pagedRead.cache.copyFrom(unlistedIds, this.#cache)
    const ids = pagedRead.cache.selectUnknown([...unlistedIds, ...requested])
    return this.#readByIds(ids.slice(0, READS_BY_ID_MAX), requested, pagedRead.cache, () => false)
  }

  // ---- reads by id --------------------------------------------------------------------------------------------------

  /** Reads the issues and then their blockers. Answers the problems. */
  async #readByIds(
    ids: readonly string[],
    requested: ReadonlySet<string>,
    cache: IssueCache,
    isListed: (id: string) => boolean,
  ): Promise<Result<string[]>> {
    const read = await this.#readIntoCache(cache, [...new Set(ids)], isListed)
    if (!read.ok) return read
    const blockers = cache.selectUnknownBlockers(requested).slice(0, READS_BY_ID_MAX)
    const more = await this.#readIntoCache(cache, blockers, () => false)
    return more.ok ? yes([...read.value, ...more.value]) : more
  }

  async #readIntoCache(
    cache: IssueCache,
    ids: readonly string[],
    isListed: (id: string) => boolean,
  ): Promise<Result<readonly string[]>> {
    if (ids.length === 0) return yes([])
    const read = await this.#reader.readByIds(ids)
    if (!read.ok) return read
    cache.store(read.value, isListed)
    cache.markMissing(read.value.missing, this.#cache)
    return yes(read.value.problems)
  }
}

/** Instants have one format, so they compare as texts. */
function newestChange(syncedUntil: string, { touched }: IssueChanges): string {
  return [...touched.values()].reduce(
    (latest, touchedAt) => (touchedAt > latest ? touchedAt : latest),
    syncedUntil,
  )
}

// ---- one read, page by page ----------------------------------------------------------------------------------------

/** Progress of a full read of all issues that may be eligible, page by page. */
class PagedRead {
  readonly cache = new IssueCache()
  readonly problems: string[] = []
  /** Start of the next page. */
  cursor: string | undefined
  pageCount = 0
  isDone = false
  /** Some pages held errors, so issues may be missing. */
  hasProblems = false
  /** Newest change in Linear when the read began. */
  newestChange: string | undefined

  addPage(page: IssuesPage): void {
    this.cache.store(page, () => true)
    this.problems.push(...page.problems)
    this.hasProblems ||= page.problems.length > 0
    if (this.pageCount === 0) this.newestChange = page.newestChange ?? newestUpdate(page)
    this.pageCount += 1
    this.cursor = page.nextCursor
    const isFull = this.cache.size >= LINEAR_TICKETS_MAX
    this.isDone = page.nextCursor === undefined || isFull
    if (isFull && page.nextCursor !== undefined) this.problems.push(TRUNCATION_PROBLEM)
  }
}

const TRUNCATION_PROBLEM = `only the ${LINEAR_TICKETS_MAX} most recently changed of the tickets that may be eligible are read; narrow tracker.eligible`

function newestUpdate({ issues }: IssuesPage): string | undefined {
  const instants = issues.map(({ tracked }) => tracked.ticket.updatedAt)
  return instants.sort().at(-1)
}

/**
 * What is known of the issues of one repository, kept up to date for little.
 *
 * All open ones are read once, and again every hour. In between only what has changed since the newest change is asked
 * for: with an address that stays the same while nothing does, so that GitHub's answer is that nothing has changed,
 * which it does not count. An issue that is closed is seen among the changes; one that was deleted or moved away is
 * missing from the next whole reading, and is asked for itself before it is believed to be gone.
 */
import type { Clock } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import { type GithubApi, PROSE_PAGE_ITEMS_MAX, repoPath } from '../codehost/github/api.ts'
import { unexpectedReply } from '../codehost/github/errors.ts'
import { asInstant, asPositiveInteger, readField } from '../codehost/github/fields.ts'
import { type GithubIssue, type IssueReference, toGithubIssue } from './github-issue.ts'

export const OPEN_ISSUES_MAX = 1_000
const CLOSED_ISSUES_MAX = 500
const FULL_READ_INTERVAL_MS = 3_600_000
/** A change may become visible a little after a later one. */
const SINCE_MARGIN_MS = 60_000
/** Of those that are missing, so many are asked for themselves; the others are simply no longer known. */
const MISSING_READ_MAX = 50
const BLOCKERS_READ_MAX = 50

export class GithubIssues {
  readonly remote: string
  readonly #clock: Pick<Clock, 'monotonic'>
  #known = new Map<number, GithubIssue>()
  /** As GitHub says, by issue. */
  readonly #blockers = new Map<number, readonly IssueReference[]>()
  #newestChange: string | undefined
  #fullReadAt = Number.NEGATIVE_INFINITY
  #refreshedAt = Number.NEGATIVE_INFINITY
  /** There are more open ones than are read. */
  isTruncated = false

  constructor(remote: string, clock: Pick<Clock, 'monotonic'>) {
    this.remote = remote
    this.#clock = clock
  }

  all(): Iterable<GithubIssue> {
    return this.#known.values()
  }

  get(number: number): GithubIssue | undefined {
    return this.#known.get(number)
  }

  blockersOf(number: number): readonly IssueReference[] {
    return this.#blockers.get(number) ?? []
  }

  /** Refused, what was known is known still. A look so soon after the last one asks nothing. */
  async refresh(api: GithubApi, intervalMs: number): Promise<Result<void>> {
    const now = this.#clock.monotonic()
    if (now - this.#refreshedAt < intervalMs) return yes(undefined)
    const isFullReadDue = this.#newestChange === undefined || now - this.#fullReadAt >= FULL_READ_INTERVAL_MS
    const refreshed = await (isFullReadDue ? this.#readAll(api, now) : this.#readChanges(api))
    if (refreshed.ok) this.#refreshedAt = now
    return refreshed
  }

  /** One that is asked for by name, whatever has become of it; undefined: nobody knows it. */
  async read(api: GithubApi, number: number): Promise<Result<GithubIssue | undefined>> {
    const reply = await readIssue(api, { remote: this.remote, number })
    if (reply.ok) {
      this.#store(reply.value)
      return reply
    }
    const isGone = reply.refusal.kind === 'unknown' || reply.refusal.kind === 'gone'
    if (!isGone) return reply
    const known = this.#known.get(number)
    if (known === undefined) return yes(undefined)
    const gone = { ...known, isOpen: false }
    this.#store(gone)
    return yes(gone)
  }

  // ---- reading -----------------------------------------------------------------------------------------------------

  async #readAll(api: GithubApi, now: number): Promise<Result<void>> {
    const listed = await this.#list(api, 'state=open&sort=updated&direction=desc')
    if (!listed.ok) return listed
    const { items, hasMore: more } = listed.value
    const open = items.flatMap((item) => toGithubIssue(item, this.remote) ?? [])
    const blockersRead = await this.#readBlockersOfChanged(api, open)
    if (!blockersRead.ok) return blockersRead
    const missing = this.#missingFrom(open)
    for (const issue of open) this.#store(issue)
    for (const { number } of missing.slice(MISSING_READ_MAX)) this.#forget(number)
    await Promise.all(missing.slice(0, MISSING_READ_MAX).map(({ number }) => this.read(api, number)))
    this.isTruncated = more
    this.#fullReadAt = now
    this.#advanceNewestChange(items)
    return yes(undefined)
  }

  async #readChanges(api: GithubApi): Promise<Result<void>> {
    const from = new Date(Date.parse(this.#newestChange ?? '') - SINCE_MARGIN_MS).toISOString()
    const since = from.replace(/\.\d{3}Z$/, 'Z')
    const listed = await this.#list(api, `state=all&since=${since}&sort=updated&direction=asc`)
    if (!listed.ok) return listed
    const { items, hasMore: more } = listed.value
    const issues = items.flatMap((item) => toGithubIssue(item, this.remote) ?? [])
    const blockersRead = await this.#readBlockersOfChanged(api, issues)
    if (!blockersRead.ok) return blockersRead
    for (const issue of issues) this.#store(issue)
    this.#advanceNewestChange(items)
    // So many that reading all of them is no dearer.
    if (more) this.#fullReadAt = Number.NEGATIVE_INFINITY
    return yes(undefined)
  }

  async #list(api: GithubApi, query: string) {
    const repo = repoPath(this.remote)
    if (!repo.ok) return repo
    return api.list(`${repo.value}/issues?${query}&per_page=${PROSE_PAGE_ITEMS_MAX}`, {
      subject: `repository ${this.remote}`,
      urgency: 'background',
      pagesMax: OPEN_ISSUES_MAX / PROSE_PAGE_ITEMS_MAX,
    })
  }

  /** Only where GitHub says that there are any, and only of those that have changed. */
  async #readBlockersOfChanged(api: GithubApi, issues: readonly GithubIssue[]): Promise<Result<void>> {
    const changed = issues.filter(({ number, updatedAt }) => this.#known.get(number)?.updatedAt !== updatedAt)
    const results = await Promise.all(changed.map((issue) => this.#readBlockers(api, issue)))
    return results.find((result) => !result.ok) ?? yes(undefined)
  }

  async #readBlockers(
    api: GithubApi,
    { number, isOpen: open, blockerCount: waitsForCount }: GithubIssue,
  ): Promise<Result<void>> {
    this.#blockers.delete(number)
    if (!open || waitsForCount === 0) return yes(undefined)
    const path = `/repos/${this.remote}/issues/${number}/dependencies/blocked_by?per_page=${BLOCKERS_READ_MAX}`
    const subject = `issue ${number} of ${this.remote}`
    const listed = await api.list(path, { subject, urgency: 'background', pagesMax: 1 })
    // A token may be allowed to see the issue and not what it waits for: then the text has to say it.
    if (!listed.ok) return /^(unknown|forbidden|gone)$/.test(listed.refusal.kind) ? yes(undefined) : listed
    this.#blockers.set(
      number,
      listed.value.items.flatMap((item) => toReference(item) ?? []),
    )
    return yes(undefined)
  }

  // ---- keeping -----------------------------------------------------------------------------------------------------

  /** In the order of their last change; the oldest closed ones give way. */
  #store(issue: GithubIssue): void {
    this.#known.delete(issue.number)
    this.#known.set(issue.number, issue)
    if (issue.isOpen) return
    const closed = [...this.#known.values()].filter(({ isOpen: open }) => !open)
    for (const { number } of closed.slice(0, Math.max(0, closed.length - CLOSED_ISSUES_MAX)))
      this.#forget(number)
  }

  #forget(number: number): void {
    this.#known.delete(number)
    this.#blockers.delete(number)
  }

  #missingFrom(open: readonly GithubIssue[]): GithubIssue[] {
    const listed = new Set(open.map(({ number }) => number))
    return [...this.#known.values()].filter((issue) => issue.isOpen && !listed.has(issue.number))
  }

  /** Pull requests count: they come with the changes, too. */
  #advanceNewestChange(items: readonly unknown[]): void {
    for (const item of items) {
      const at = asInstant(readField(item, 'updated_at'))
      if (at !== undefined && (this.#newestChange === undefined || at > this.#newestChange))
        this.#newestChange = at
    }
  }
}

/** One that was moved to another repository leads there, where it has another number. */
export async function readIssue(api: GithubApi, place: IssueReference): Promise<Result<GithubIssue>> {
  const repo = repoPath(place.remote)
  if (!repo.ok) return repo
  const subject = `issue ${place.number} of ${place.remote}`
  const read = await api.read(`${repo.value}/issues/${place.number}`, subject, 'background')
  if (!read.ok) return read
  // What says nothing of it does not say that it is gone.
  if (asPositiveInteger(readField(read.value, 'number')) === undefined) return unexpectedReply(subject)
  const issue = toGithubIssue(read.value, place.remote)
  const isSame = issue !== undefined && issue.number === place.number
  return isSame
    ? yes(issue)
    : { ok: false, refusal: { kind: 'unknown', message: `${subject} is no issue (any more)` } }
}

/** `repository_url` ends in its repository's name. */
function toReference(item: unknown): IssueReference | undefined {
  const { length } = 'owner/name'.split('/')
  const url = readField(item, 'repository_url')
  const remote = typeof url === 'string' ? url.split('/').slice(-length).join('/') : ''
  const number = readField(item, 'number')
  return typeof number === 'number' && remote !== '' ? { remote, number } : undefined
}

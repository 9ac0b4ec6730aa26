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
import { type Issue, type IssuePlace, issueOf } from './github-issue.ts'

export const OPEN_ISSUES_MAX = 1_000
const CLOSED_ISSUES_MAX = 500
const WHOLE_LOOK_MS = 3_600_000
/** A change may become visible a little after a later one. */
const SINCE_MARGIN_MS = 60_000
/** Of those that are missing, so many are asked for themselves; the others are simply no longer known. */
const MISSING_ASKED_MAX = 50
const BLOCKERS_LISTED_MAX = 50

export class RepoIssues {
  readonly remote: string
  readonly #clock: Pick<Clock, 'monotonic'>
  #known = new Map<number, Issue>()
  /** As GitHub says, by issue. */
  readonly #waitsFor = new Map<number, readonly IssuePlace[]>()
  #newest: string | undefined
  #wholeAt = Number.NEGATIVE_INFINITY
  #lookedAt = Number.NEGATIVE_INFINITY
  /** There are more open ones than are read. */
  cutShort = false

  constructor(remote: string, clock: Pick<Clock, 'monotonic'>) {
    this.remote = remote
    this.#clock = clock
  }

  all(): Iterable<Issue> {
    return this.#known.values()
  }

  get(number: number): Issue | undefined {
    return this.#known.get(number)
  }

  waitsFor(number: number): readonly IssuePlace[] {
    return this.#waitsFor.get(number) ?? []
  }

  /** Refused, what was known is known still. A look so soon after the last one asks nothing. */
  async look(api: GithubApi, pauseMs: number): Promise<Result<void>> {
    const now = this.#clock.monotonic()
    if (now - this.#lookedAt < pauseMs) return yes(undefined)
    const isWhole = this.#newest === undefined || now - this.#wholeAt >= WHOLE_LOOK_MS
    const looked = await (isWhole ? this.#readAll(api, now) : this.#readChanges(api))
    if (looked.ok) this.#lookedAt = now
    return looked
  }

  /** One that is asked for by name, whatever has become of it; undefined: nobody knows it. */
  async find(api: GithubApi, number: number): Promise<Result<Issue | undefined>> {
    const found = await readIssue(api, { remote: this.remote, number })
    if (found.ok) {
      this.#keep(found.value)
      return found
    }
    const isGone = found.refusal.kind === 'unknown' || found.refusal.kind === 'gone'
    if (!isGone) return found
    const known = this.#known.get(number)
    if (known === undefined) return yes(undefined)
    const gone = { ...known, open: false }
    this.#keep(gone)
    return yes(gone)
  }

  // ---- reading -----------------------------------------------------------------------------------------------------

  async #readAll(api: GithubApi, now: number): Promise<Result<void>> {
    const listed = await this.#list(api, 'state=open&sort=updated&direction=desc')
    if (!listed.ok) return listed
    const { items, hasMore: more } = listed.value
    const open = items.flatMap((item) => issueOf(item, this.remote) ?? [])
    const asked = await this.#askWaits(api, open)
    if (!asked.ok) return asked
    const missing = this.#missingFrom(open)
    for (const issue of open) this.#keep(issue)
    for (const { number } of missing.slice(MISSING_ASKED_MAX)) this.#forget(number)
    await Promise.all(missing.slice(0, MISSING_ASKED_MAX).map(({ number }) => this.find(api, number)))
    this.cutShort = more
    this.#wholeAt = now
    this.#moveOn(items)
    return yes(undefined)
  }

  async #readChanges(api: GithubApi): Promise<Result<void>> {
    const from = new Date(Date.parse(this.#newest ?? '') - SINCE_MARGIN_MS).toISOString()
    const since = from.replace(/\.\d{3}Z$/, 'Z')
    const listed = await this.#list(api, `state=all&since=${since}&sort=updated&direction=asc`)
    if (!listed.ok) return listed
    const { items, hasMore: more } = listed.value
    const issues = items.flatMap((item) => issueOf(item, this.remote) ?? [])
    const asked = await this.#askWaits(api, issues)
    if (!asked.ok) return asked
    for (const issue of issues) this.#keep(issue)
    this.#moveOn(items)
    // So many that reading all of them is no dearer.
    if (more) this.#wholeAt = Number.NEGATIVE_INFINITY
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
  async #askWaits(api: GithubApi, issues: readonly Issue[]): Promise<Result<void>> {
    const fresh = issues.filter(({ number, updatedAt }) => this.#known.get(number)?.updatedAt !== updatedAt)
    const asked = await Promise.all(fresh.map((issue) => this.#askWait(api, issue)))
    return asked.find((answer) => !answer.ok) ?? yes(undefined)
  }

  async #askWait(api: GithubApi, { number, open, waitsForCount }: Issue): Promise<Result<void>> {
    this.#waitsFor.delete(number)
    if (!open || waitsForCount === 0) return yes(undefined)
    const path = `/repos/${this.remote}/issues/${number}/dependencies/blocked_by?per_page=${BLOCKERS_LISTED_MAX}`
    const subject = `issue ${number} of ${this.remote}`
    const listed = await api.list(path, { subject, urgency: 'background', pagesMax: 1 })
    // A token may be allowed to see the issue and not what it waits for: then the text has to say it.
    if (!listed.ok) return /^(unknown|forbidden|gone)$/.test(listed.refusal.kind) ? yes(undefined) : listed
    this.#waitsFor.set(
      number,
      listed.value.items.flatMap((item) => placeIn(item) ?? []),
    )
    return yes(undefined)
  }

  // ---- keeping -----------------------------------------------------------------------------------------------------

  /** In the order of their last change; the oldest closed ones give way. */
  #keep(issue: Issue): void {
    this.#known.delete(issue.number)
    this.#known.set(issue.number, issue)
    if (issue.open) return
    const closed = [...this.#known.values()].filter(({ open }) => !open)
    for (const { number } of closed.slice(0, Math.max(0, closed.length - CLOSED_ISSUES_MAX)))
      this.#forget(number)
  }

  #forget(number: number): void {
    this.#known.delete(number)
    this.#waitsFor.delete(number)
  }

  #missingFrom(open: readonly Issue[]): Issue[] {
    const there = new Set(open.map(({ number }) => number))
    return [...this.#known.values()].filter((issue) => issue.open && !there.has(issue.number))
  }

  /** Pull requests count: they come with the changes, too. */
  #moveOn(items: readonly unknown[]): void {
    for (const item of items) {
      const at = asInstant(readField(item, 'updated_at'))
      if (at !== undefined && (this.#newest === undefined || at > this.#newest)) this.#newest = at
    }
  }
}

/** One that was moved to another repository leads there, where it has another number. */
export async function readIssue(api: GithubApi, place: IssuePlace): Promise<Result<Issue>> {
  const repo = repoPath(place.remote)
  if (!repo.ok) return repo
  const subject = `issue ${place.number} of ${place.remote}`
  const read = await api.read(`${repo.value}/issues/${place.number}`, subject, 'background')
  if (!read.ok) return read
  // What says nothing of it does not say that it is gone.
  if (asPositiveInteger(readField(read.value, 'number')) === undefined) return unexpectedReply(subject)
  const issue = issueOf(read.value, place.remote)
  const isSame = issue !== undefined && issue.number === place.number
  return isSame
    ? yes(issue)
    : { ok: false, refusal: { kind: 'unknown', message: `${subject} is no issue (any more)` } }
}

/** `repository_url` ends in its repository's name. */
function placeIn(item: unknown): IssuePlace | undefined {
  const { length } = 'owner/name'.split('/')
  const url = readField(item, 'repository_url')
  const remote = typeof url === 'string' ? url.split('/').slice(-length).join('/') : ''
  const number = readField(item, 'number')
  return typeof number === 'number' && remote !== '' ? { remote, number } : undefined
}

/**
 * Caches the issues of one repository and keeps them up to date with few requests.
 *
 * All open issues are read at first and then hourly. In between only changes since the newest known change are read.
 * Their URL stays the same until an issue changes, so GitHub answers 304, which does not count against the budget.
 * Closed issues appear among the changes. A deleted or transferred issue is missing from the next full read, and is
 * then read by itself before it counts as gone.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { TicketComment } from '../../../core/ports/tracker.ts'
import { type Result, yes } from '../../../core/result.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import type { TicketEdit } from '../../../protocol/run.ts'
import { ownerOf } from '../../codehost/remote-name.ts'
import { type GithubApi, PROSE_PAGE_ITEMS_MAX, repoPath } from '../../github/api.ts'
import { unexpectedReply } from '../../github/errors.ts'
import { asInstant, asList, asPositiveInteger, asText } from '../../github/fields.ts'
import { readField } from '../../http/reply-fields.ts'
import { type GithubIssue, type IssueReference, toGithubIssue } from './issue.ts'

export const OPEN_ISSUES_MAX = 1_000
const CLOSED_ISSUES_MAX = 500
const FULL_READ_INTERVAL_MS = 3_600_000
/** GitHub may show a change slightly later than a newer one. */
const SINCE_MARGIN_MS = 60_000
/** Missing issues that are read one by one; further ones are dropped from the cache. */
const MISSING_READ_MAX = 50
const BLOCKERS_READ_MAX = 50
const COMMENT_PAGES_MAX = 3

export class GithubIssues {
  readonly remote: string
  readonly #clock: Pick<Clock, 'monotonic'>
  #known = new Map<number, GithubIssue>()
  /** Blockers recorded by GitHub, by issue number. */
  readonly #blockers = new Map<number, readonly IssueReference[]>()
  /** The edits of issues, as far as they were asked for. */
  readonly #edits = new Map<number, { readonly updatedAt: string; readonly edits: IssueEdits }>()
  #newestChange: string | undefined
  #fullReadAt = Number.NEGATIVE_INFINITY
  #refreshedAt = Number.NEGATIVE_INFINITY
  /** The repository has more open issues than are read. */
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

  /** Undefined: they were not read since the issue's last change. */
  editsOf({ number, updatedAt }: GithubIssue): IssueEdits | undefined {
    const known = this.#edits.get(number)
    return known?.updatedAt === updatedAt ? known.edits : undefined
  }

  async readEdits(api: GithubApi, { number, updatedAt }: GithubIssue): Promise<Result<void>> {
    const read = await readIssueEdits(api, { remote: this.remote, number })
    if (!read.ok) return read
    this.#edits.set(number, { updatedAt, edits: read.value })
    return yes(undefined)
  }

  /** Adds an issue that was just created, before a list can show it. */
  add(issue: GithubIssue): void {
    this.#store(issue)
  }

  /** Reads the issues unless `intervalMs` has not passed since the last read. A refusal leaves the cache unchanged. */
  async refresh(api: GithubApi, intervalMs: number): Promise<Result<void>> {
    const now = this.#clock.monotonic()
    if (now - this.#refreshedAt < intervalMs) return yes(undefined)
    const isFullReadDue = this.#newestChange === undefined || now - this.#fullReadAt >= FULL_READ_INTERVAL_MS
    const refreshed = await (isFullReadDue ? this.#readAll(api, now) : this.#readChanges(api))
    if (refreshed.ok) this.#refreshedAt = now
    return refreshed
  }

  /** Reads a single issue in any state; undefined when it does not exist and was never known. */
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

  // ---- reading ------------------------------------------------------------------------------------------------------

  async #readAll(api: GithubApi, now: number): Promise<Result<void>> {
    const listed = await this.#list(api, 'state=open&sort=updated&direction=desc')
    if (!listed.ok) return listed
    const { items, hasMore } = listed.value
    const open = items.flatMap((item) => toGithubIssue(item, this.remote) ?? [])
    const blockersRead = await this.#readBlockersOfChanged(api, open)
    if (!blockersRead.ok) return blockersRead
    const missing = this.#missingFrom(open)
    for (const issue of open) this.#store(issue)
    for (const { number } of missing.slice(MISSING_READ_MAX)) this.#forget(number)
    await Promise.all(missing.slice(0, MISSING_READ_MAX).map(({ number }) => this.read(api, number)))
    this.isTruncated = hasMore
    this.#fullReadAt = now
    this.#advanceNewestChange(items)
    return yes(undefined)
  }

  async #readChanges(api: GithubApi): Promise<Result<void>> {
    const from = new Date(Date.parse(this.#newestChange ?? '') - SINCE_MARGIN_MS).toISOString()
    const since = from.replace(/\.\d{3}Z$/, 'Z')
    const listed = await this.#list(api, `state=all&since=${since}&sort=updated&direction=asc`)
    if (!listed.ok) return listed
    const { items, hasMore } = listed.value
    const issues = items.flatMap((item) => toGithubIssue(item, this.remote) ?? [])
    const blockersRead = await this.#readBlockersOfChanged(api, issues)
    if (!blockersRead.ok) return blockersRead
    for (const issue of issues) this.#store(issue)
    this.#advanceNewestChange(items)
    // With so many changes a full read is cheaper.
    if (hasMore) this.#fullReadAt = Number.NEGATIVE_INFINITY
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

  /** Reads blockers only for changed issues that have any according to GitHub. */
  async #readBlockersOfChanged(api: GithubApi, issues: readonly GithubIssue[]): Promise<Result<void>> {
    const changed = issues.filter(({ number, updatedAt }) => this.#known.get(number)?.updatedAt !== updatedAt)
    const results = await Promise.all(changed.map((issue) => this.#readBlockers(api, issue)))
    return results.find((result) => !result.ok) ?? yes(undefined)
  }

  async #readBlockers(api: GithubApi, { number, isOpen, blockerCount }: GithubIssue): Promise<Result<void>> {
    this.#blockers.delete(number)
    if (!isOpen || blockerCount === 0) return yes(undefined)
    const path = `/repos/${this.remote}/issues/${number}/dependencies/blocked_by?per_page=${BLOCKERS_READ_MAX}`
    const subject = `issue ${number} of ${this.remote}`
    const listed = await api.list(path, { subject, urgency: 'background', pagesMax: 1 })
    // A token may lack access to dependencies; then only the issue's text names blockers.
    if (!listed.ok) return /^(unknown|forbidden|gone)$/.test(listed.refusal.kind) ? yes(undefined) : listed
    this.#blockers.set(
      number,
      listed.value.items.flatMap((item) => toReference(item) ?? []),
    )
    return yes(undefined)
  }

  // ---- cache --------------------------------------------------------------------------------------------------------

  /** Ordered by last change; the oldest closed issues are dropped first. */
  #store(issue: GithubIssue): void {
    this.#known.delete(issue.number)
    this.#known.set(issue.number, issue)
    if (issue.isOpen) return
    const closed = [...this.#known.values()].filter(({ isOpen }) => !isOpen)
    for (const { number } of closed.slice(0, Math.max(0, closed.length - CLOSED_ISSUES_MAX)))
      this.#forget(number)
  }

  #forget(number: number): void {
    this.#known.delete(number)
    this.#blockers.delete(number)
    this.#edits.delete(number)
  }

  #missingFrom(open: readonly GithubIssue[]): GithubIssue[] {
    const listed = new Set(open.map(({ number }) => number))
    return [...this.#known.values()].filter((issue) => issue.isOpen && !listed.has(issue.number))
  }

  /** Pull requests count, because GitHub lists them among the changes. */
  #advanceNewestChange(items: readonly unknown[]): void {
    for (const item of items) {
      const at = asInstant(readField(item, 'updated_at'))
      if (at !== undefined && (this.#newestChange === undefined || at > this.#newestChange))
        this.#newestChange = at
    }
  }
}

/** Reads one issue. A transferred issue redirects to another repository and number, which counts as unknown. */
export async function readIssue(api: GithubApi, place: IssueReference): Promise<Result<GithubIssue>> {
  const repo = repoPath(place.remote)
  if (!repo.ok) return repo
  const subject = `issue ${place.number} of ${place.remote}`
  const read = await api.read(`${repo.value}/issues/${place.number}`, subject, 'background')
  if (!read.ok) return read
  // A malformed reply does not mean that the issue is gone.
  if (asPositiveInteger(readField(read.value, 'number')) === undefined) return unexpectedReply(subject)
  const issue = toGithubIssue(read.value, place.remote)
  const isSame = issue !== undefined && issue.number === place.number
  return isSame
    ? yes(issue)
    : { ok: false, refusal: { kind: 'unknown', message: `${subject} is no issue (any more)` } }
}

/** An issue of which one of the newest comments holds the key gets no other. */
export async function commentOn(
  api: GithubApi,
  { remote, number }: IssueReference,
  { key, text }: TicketComment,
): Promise<Result<void>> {
  const repo = repoPath(remote)
  if (!repo.ok) return repo
  const [path, subject] = [`${repo.value}/issues/${number}/comments`, `issue ${number} of ${remote}`]
  const listed = await api.list(`${path}?per_page=${PROSE_PAGE_ITEMS_MAX}`, {
    subject,
    urgency: 'background',
    pagesMax: COMMENT_PAGES_MAX,
    keepsNewest: true,
  })
  if (!listed.ok) return listed
  if (listed.value.items.some((item) => String(readField(item, 'body')).includes(key))) return yes(undefined)
  const written = await api.write('POST', path, subject, { body: text })
  return written.ok ? yes(undefined) : written
}

/** `repository_url` ends with the repository's name. */
function toReference(item: unknown): IssueReference | undefined {
  const { length } = 'owner/name'.split('/')
  const url = readField(item, 'repository_url')
  const remote = typeof url === 'string' ? url.split('/').slice(-length).join('/') : ''
  const number = readField(item, 'number')
  return typeof number === 'number' && remote !== '' ? { remote, number } : undefined
}

// ---- edits of others -----------------------------------------------------------------------------------------------

interface IssueEdits {
  /** The login of the token's account. */
  readonly viewer: string
  /** All edits of the text and of the title. */
  readonly edits: readonly IssueAct[]
  readonly labelled: readonly (IssueAct & { readonly label: string })[]
}

interface IssueAct {
  readonly by: string
  readonly at: string
}

export interface EligibleLabels {
  /** The labels that make an issue eligible. Without any, every open issue is, whoever has written it. */
  readonly names: readonly string[]
  /** The labels that the host sets, some of which may be among them. */
  readonly ofHost: readonly string[]
}

/** GitHub shows deleted accounts so. */
const NOBODY = 'ghost'
const EVENTS_READ_MAX = 100
const EDITS_READ_MAX = 100

const EDITS_QUERY = `query Edits($owner: String!, $name: String!, $n: Int!) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    issue(number: $n) {
      createdAt
      lastEditedAt
      editor { login }
      userContentEdits(first: ${EDITS_READ_MAX}) {
        totalCount
        nodes { editedAt editor { login } }
      }
      timelineItems(last: ${EVENTS_READ_MAX}, itemTypes: [LABELED_EVENT, RENAMED_TITLE_EVENT]) {
        nodes {
          __typename
          ... on LabeledEvent { createdAt actor { login } label { name } }
          ... on RenamedTitleEvent { createdAt actor { login } }
        }
      }
    }
  }
}`

/**
 * Whether it must be asked if somebody who may not write has changed the issue's words after a label made it eligible.
 *
 * An issue's author edits it, and so do people who may write: when the author may write, nothing is asked. Every edit
 * since the label counts, because a later one of somebody else leaves its words where they are. A label is the word of
 * somebody who may set it, but not where the host itself may have set it with the same account.
 *
 * The host moves an issue on from its eligible label, and a run that goes on after an interruption reads it again.
 */
export const mayHaveForeignEdits = (
  { isOpen, authorMayWrite, labels }: GithubIssue,
  { names, ofHost }: EligibleLabels,
): boolean =>
  isOpen &&
  !authorMayWrite &&
  names.length > 0 &&
  labels.some((label) => isOneOf(label, names) || isOneOf(label, ofHost))

async function readIssueEdits(
  api: GithubApi,
  { remote, number }: IssueReference,
): Promise<Result<IssueEdits>> {
  const owner = ownerOf(remote)
  const data = await api.graphql({
    query: EDITS_QUERY,
    variables: { owner, name: remote.slice(owner.length + 1), n: number },
    subject: `the edits of issue ${number} of ${remote}`,
    urgency: 'background',
  })
  if (!data.ok) return data
  const issue = readField(data.value, 'repository', 'issue')
  const events = asList(readField(issue, 'timelineItems', 'nodes'))
  const isOf = (type: string) => (event: unknown) => readField(event, '__typename') === type
  return yes({
    viewer: loginOf(readField(data.value, 'viewer')),
    edits: [
      ...textEdits(issue),
      ...events.filter(isOf('RenamedTitleEvent')).flatMap((event) => toAct(event, 'createdAt', 'actor')),
    ],
    labelled: events.filter(isOf('LabeledEvent')).flatMap((event) => {
      const label = asText(readField(event, 'label', 'name'))
      return toAct(event, 'createdAt', 'actor').map((act) => ({ ...act, label }))
    }),
  })
}

/** GitHub lists the words of the beginning among the edits. Where it lists too few, somebody unknown made the last. */
function textEdits(issue: unknown): IssueAct[] {
  const createdAt = asInstant(readField(issue, 'createdAt')) ?? ''
  const listed = readField(issue, 'userContentEdits')
  const edits = asList(readField(listed, 'nodes')).flatMap((edit) => toAct(edit, 'editedAt', 'editor'))
  const last = toAct(issue, 'lastEditedAt', 'editor')
  const isWhole = edits.length >= Number(readField(listed, 'totalCount') ?? 0)
  return [
    ...edits.filter(({ at }) => at > createdAt),
    ...(isWhole ? last : last.map(({ at }) => ({ at, by: NOBODY }))),
  ]
}

function toAct(value: unknown, instantField: string, actorField: string): IssueAct[] {
  const at = asInstant(readField(value, instantField))
  return at === undefined ? [] : [{ at, by: loginOf(readField(value, actorField)) }]
}

const loginOf = (actor: unknown): string => asText(readField(actor, 'login')) || NOBODY

/** Undefined: the words are those that the label was set for, or the word of somebody who may write. */
export function editAfterLabel(
  { author, createdAt }: GithubIssue,
  { viewer, edits, labelled }: IssueEdits,
  { names, ofHost }: EligibleLabels,
): TicketEdit | undefined {
  const words = labelled.filter(
    ({ label, by }) => isOneOf(label, names) && !(isOneOf(label, ofHost) && isSameName(by, viewer)),
  )
  const labelledAt = words.reduce((newest, { at }) => (at > newest ? at : newest), createdAt)
  // A label and an edit of the same second have no order.
  const unread = edits.filter(({ by, at }) => at >= labelledAt && (by === NOBODY || isSameName(by, author)))
  return unread.toSorted((a, b) => (a.at < b.at ? -1 : 1)).at(-1)
}

const isOneOf = (name: string, names: readonly string[]): boolean =>
  names.some((each) => isSameName(each, name))

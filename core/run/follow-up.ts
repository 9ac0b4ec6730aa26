/**
 * What a follow-up is about: where its pull request lies, and what people have said there that nobody has answered yet.
 *
 * All of it is the word of strangers, and as much as they like: it is given to the agent as data, within a budget, the
 * newest first. What we have written ourselves is left out, or a follow-up would answer itself, and so is what earlier
 * follow-ups were told.
 */
import { createHash } from 'node:crypto'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { JobPull } from '../../protocol/frames.ts'
import {
  FOLLOW_UP_HUNK_CHARS_MAX,
  FOLLOW_UP_ITEMS_MAX,
  FOLLOW_UP_TEXT_CHARS_MAX,
  FOLLOW_UP_THREAD_BYTES_MAX,
  JOB_DISCUSSION_BYTES_MAX,
} from '../../protocol/limits.ts'
import type { PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { createdAtOf } from '../ids.ts'
import type { PullBranches, PullDetailFacts } from '../provider-ports.ts'
import { no, type Result, yes } from '../result.ts'
import { truncate } from '../safe-text.ts'
import { isSameName } from '../tickets/names.ts'
import { chooseRepo, type RepoChoice } from '../tickets/repo.ts'

/** What a follow-up's one comment bears, so that it is there once whatever happens to whoever makes it. */
export function followUpMarker(id: string): string {
  return `<!-- switchyard:follow-up ${id} -->`
}

/** The number of the next one. One that cost nothing did nothing, and its number is given again. */
export function nextFollowUpNumber(costs: readonly CostEntry[]): number {
  return 1 + Math.max(0, ...costs.map(({ label }) => Number(/^follow-up (\d{1,6})$/.exec(label)?.[1] ?? 0)))
}

/**
 * The repository is the pull request's own, whatever the ticket says by now: of several keys for it, the ticket's.
 */
export function chooseRepoOfPull(
  remote: string,
  ticket: Ticket,
  repos: ServiceConfig['repos'],
): Result<RepoChoice> {
  const isIts = ({ mapping }: RepoChoice): boolean => isSameName(mapping.remote, remote)
  const own = chooseRepo(ticket, repos)
  if (own.ok && isIts(own.value)) return own
  const found = Object.entries(repos)
    .map(([key, mapping]) => ({ key, mapping }))
    .find(isIts)
  if (found !== undefined) return yes(found)
  return no(
    'invalid',
    `the repository of its pull request, ${remote}, is not under repos any more; add it again, such as {"web": {"remote": "${remote}"}}`,
  )
}

/** The worker whose sandbox is worth waiting for; `now` in wall milliseconds. */
export function sandboxHolder({ sandbox }: Pick<Run, 'sandbox'>, now: number): string | undefined {
  const { id, workerId, retainedUntil } = sandbox
  if (id === undefined || retainedUntil === undefined || Date.parse(retainedUntil) <= now) return undefined
  return workerId
}

// ---- the pull request --------------------------------------------------------------------------------------------

/** The pull request, and how many remarks on it there was no room for. */
export interface PullDiscussion {
  readonly pull: JobPull
  readonly omitted: number
  /** Keys of remarks that earlier follow-ups were told. */
  readonly answered: readonly string[]
}

/** By which a remark is known again. Where one was deleted, another may come to have its id. */
export function remarkKey(kind: 'comment' | 'review', id: string, at: string): string {
  return createHash('sha256').update(`${kind} ${id} ${at}`).digest('base64url').slice(0, KEY_CHARS)
}

/** Of what a follow-up was told. Threads are told until somebody resolves them. */
export function remarkKeys({ comments, reviews }: Pick<JobPull, 'comments' | 'reviews'>): string[] {
  return [...comments.map(keyOfComment), ...reviews.map(keyOfReview)]
}

/**
 * `url`: as the run knows it. `answered`: keys of what earlier follow-ups were told, where that is remembered. Refused
 * when there is nowhere to push to.
 */
export function readDiscussion(
  url: string,
  detail: PullDetailFacts,
  origin: PullBranches,
  answered?: ReadonlySet<string>,
): Result<PullDiscussion> {
  const { headRemote, headBranch, baseBranch } = origin
  if (headRemote === undefined)
    return no('gone', 'the repository that its branch lies in is gone, so nothing can be pushed to it')
  if (headBranch === '' || baseBranch === '')
    return no('gone', 'the code host does not say which branches its pull request is of')
  const { threads } = detail.conversation
  const reviews = detail.conversation.reviews.filter(asksForSomething)
  const comments = detail.conversation.comments.filter((one) => !isOwnComment(one))
  const since = answeredUntil(detail)
  const isNew = (at: string, key: string) => (answered === undefined ? at >= since : !answered.has(key))
  const pull: JobPull = {
    number: detail.number,
    url,
    headBranch,
    headRemote,
    baseBranch,
    threads: threads.filter(({ resolved }) => !resolved).flatMap(withoutOwnComments),
    reviews: reviews.filter((one) => isNew(one.submittedAt, keyOfReview(one))),
    comments: comments.filter((one) => isNew(one.createdAt, keyOfComment(one))),
  }
  const fresh = new Set(remarkKeys(pull))
  const known = remarkKeys({ comments, reviews }).filter((key) => !fresh.has(key))
  return yes(trimDiscussion({ pull, omitted: 0, answered: known }, JOB_DISCUSSION_BYTES_MAX))
}

/** Ninety-six bits: plenty to tell a few thousand apart. */
const KEY_CHARS = 16
const keyOfComment = ({ id, createdAt }: PullComment) => remarkKey('comment', id, createdAt)
const keyOfReview = ({ id, submittedAt }: PullReview) => remarkKey('review', id, submittedAt)

/** The newest remarks that have room together, in the order in which they came. */
export function trimDiscussion(
  { pull, omitted, answered }: PullDiscussion,
  bytesMax: number,
): PullDiscussion {
  const remarks = [
    ...pull.threads.map((thread): Remark => ({ is: 'thread', ...shortenThread(thread) })),
    ...pull.reviews.map(
      (one): Remark => ({ is: 'review', at: one.submittedAt, item: shortenBody(one), omitted: 0 }),
    ),
    ...pull.comments.map(
      (one): Remark => ({ is: 'comment', at: one.createdAt, item: shortenBody(one), omitted: 0 }),
    ),
  ]
  const kept = selectNewest(remarks, bytesMax)
  const items = <Is extends Remark['is']>(is: Is) =>
    remarks.filter((one): one is Extract<Remark, { is: Is }> => one.is === is && kept.has(one))
  const left = remarks.reduce((sum, one) => sum + (kept.has(one) ? one.omitted : one.omitted + 1), omitted)
  return {
    pull: {
      ...pull,
      threads: items('thread').map(({ item }) => item),
      reviews: items('review').map(({ item }) => item),
      comments: items('comment').map(({ item }) => item),
    },
    omitted: left,
    answered,
  }
}

// ---- what is new -------------------------------------------------------------------------------------------------

/** At the start of a line, where no quotation has it. */
const OWN_MARKER = /^<!-- switchyard:/m
const FOLLOW_UP_MARKER = /^<!-- switchyard:follow-up ([\w-]{1,100}) -->/m

const isOwnComment = ({ body }: PullComment): boolean => OWN_MARKER.test(body)

/**
 * Where it is not remembered what was told: everything up to the beginning of the last follow-up that came to its end
 * was seen by it. When it began, its id says; what came while it worked is new, and so is what came within the same
 * second, for a code host may not say whether it was before. A stranger may write such a mark too: it counts only from
 * whoever opened the pull request, and never for what comes after it.
 */
function answeredUntil({ author, conversation }: PullDetailFacts): string {
  const marks = conversation.comments.flatMap((comment) => {
    const id = FOLLOW_UP_MARKER.exec(comment.body)?.[1]
    if (id === undefined || !isSameName(comment.author, author)) return []
    const began = createdAtOf(id)
    return [began === undefined || began > comment.createdAt ? comment.createdAt : wholeSecond(began)]
  })
  return marks.reduce((last, mark) => (mark > last ? mark : last), '')
}

const wholeSecond = (instant: string): string => instant.replace(/\.\d{3}Z$/, '.000Z')

const UNSUBMITTED_STATES = new Set(['PENDING', 'DISMISSED'])

/** An approval without words asks for nothing; what a review says of single lines is in its threads. */
const asksForSomething = ({ body, state }: PullReview): boolean =>
  body.trim() !== '' && !OWN_MARKER.test(body) && !UNSUBMITTED_STATES.has(state.toUpperCase())

function withoutOwnComments(thread: PullThread): PullThread[] {
  const comments = thread.comments.filter((comment) => !isOwnComment(comment))
  return comments.length === 0 ? [] : [{ ...thread, comments }]
}

// ---- room --------------------------------------------------------------------------------------------------------

/** `left`: how many parts of it there was no room for. */
type Remark = { readonly at: string; readonly omitted: number } & (
  | { readonly is: 'thread'; readonly item: PullThread }
  | { readonly is: 'review'; readonly item: PullReview }
  | { readonly is: 'comment'; readonly item: PullComment }
)

function selectNewest(remarks: readonly Remark[], bytesMax: number): ReadonlySet<Remark> {
  const newestFirst = remarks.toSorted((a, b) => (a.at === b.at ? 0 : a.at < b.at ? 1 : -1))
  const counts = { thread: 0, review: 0, comment: 0 }
  let left = bytesMax
  const fits = newestFirst.filter(({ is, item }) => {
    const bytes = bytesOf(item) + 1
    if (bytes > left || counts[is] >= FOLLOW_UP_ITEMS_MAX) return false
    left -= bytes
    counts[is] += 1
    return true
  })
  return new Set(fits)
}

/** What it began with, and the newest of what was said to that. */
function shortenThread(thread: PullThread): { at: string; item: PullThread; omitted: number } {
  const [first, ...rest] = thread.comments.map(shortenBody)
  const at = thread.comments.at(-1)?.createdAt ?? ''
  let bytesLeft = FOLLOW_UP_THREAD_BYTES_MAX - (first === undefined ? 0 : bytesOf(first))
  const kept: PullComment[] = []
  for (const comment of rest.reverse()) {
    bytesLeft -= bytesOf(comment) + 1
    if (bytesLeft < 0) break
    kept.unshift(comment)
  }
  const comments = first === undefined ? [] : [first, ...kept]
  const item = { ...thread, diffHunk: lastChars(thread.diffHunk, FOLLOW_UP_HUNK_CHARS_MAX), comments }
  return { at, item, omitted: thread.comments.length - comments.length }
}

const TRUNCATED_NOTE = '\n\n(It goes on; the rest is in the pull request.)'

function shortenBody<T extends { readonly body: string }>(remark: T): T {
  const { body } = remark
  if (body.length <= FOLLOW_UP_TEXT_CHARS_MAX) return remark
  return {
    ...remark,
    body: `${truncate(body, FOLLOW_UP_TEXT_CHARS_MAX - TRUNCATED_NOTE.length)}${TRUNCATED_NOTE}`,
  }
}

/** The line that is talked about is the last of its hunk. */
function lastChars(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : text.slice(-charsMax).replace(/^[\uDC00-\uDFFF]/, '')
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/**
 * Applies a person's action to the record of a local pull request.
 *
 * Actions are allowed and refused by the rules of GitHub. This file accesses no file and no repository.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { truncate } from '../../../core/safe-text.ts'
import { FOLLOW_UP_ITEMS_MAX, PROSE_CHARS_MAX } from '../../../protocol/limits.ts'
import type {
  PullComment,
  PullReview,
  PullThread,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewLineComment,
  ReviewRequest,
} from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { DatedPull } from './pull-file.ts'

/** Author and instant of an edit, and the address of the pull request. */
export interface PullEditStamp {
  readonly author: string
  readonly at: string
  readonly url: string
}

const REVIEW_STATES: Readonly<Record<ReviewRequest['event'], string>> = {
  APPROVE: 'APPROVED',
  REQUEST_CHANGES: 'CHANGES_REQUESTED',
  COMMENT: 'COMMENTED',
}
const GENERATED_ID = /^c(\d{1,12})$/

/** A file edited by hand may hold both `open` and `draft: true`. */
export function readState({ state, draft }: DatedPull): PullState {
  return state === 'open' && draft === true ? 'draft' : state
}

export const isOpen = ({ state }: DatedPull): boolean => state === 'open' || state === 'draft'

// ---- state ----------------------------------------------------------------------------------------------------------

export function closePull(pull: DatedPull, at: string): Result<DatedPull> {
  if (!isOpen(pull)) return no('conflict', `the pull request is ${pull.state} already`)
  const draft = readState(pull) === 'draft'
  return yes({ ...pull, state: 'closed', draft, updatedAt: at })
}

/** A pull request that was a draft when it was closed becomes a draft again. */
export function reopenPull(pull: DatedPull, at: string): Result<DatedPull> {
  if (isOpen(pull)) return no('conflict', 'the pull request is open already')
  if (pull.state === 'merged') return no('conflict', 'the pull request is merged, and cannot be opened again')
  return yes({ ...pull, state: pull.draft === true ? 'draft' : 'open', updatedAt: at })
}

export function markReady(pull: DatedPull, at: string): Result<DatedPull> {
  const state = readState(pull)
  if (state === 'draft') return yes({ ...pull, state: 'open', draft: false, updatedAt: at })
  return no('conflict', state === 'open' ? 'the pull request is not a draft' : `the pull request is ${state}`)
}

/** The base branch already holds the commits, so a pull request that was closed meanwhile becomes merged too. */
export function markMerged(pull: DatedPull, at: string): Result<DatedPull> {
  if (pull.state === 'merged') return yes(pull)
  return yes({ ...pull, state: 'merged', draft: false, updatedAt: at, mergedAt: at })
}

// ---- conversation ---------------------------------------------------------------------------------------------------

export function addComment(pull: DatedPull, body: string, stamp: PullEditStamp): Result<DatedPull> {
  if (body.trim() === '') return no('invalid', '/body: must not be empty')
  const comments = [...(pull.comments ?? []), createComment(pull, body, stamp)]
  return refuseAboveLimit(comments) ?? yes({ ...pull, comments, updatedAt: stamp.at })
}

/** Returns the same object when there are no duplicates. `updatedAt` stays, since nothing changes for readers. */
export function withoutDuplicates(pull: DatedPull, text: string): DatedPull {
  const { comments = [] } = pull
  const [first, ...rest] = comments.filter(({ body }) => body.trimEnd().endsWith(text))
  const duplicates = new Set(rest.filter(({ author }) => author === first?.author))
  return duplicates.size === 0
    ? pull
    : { ...pull, comments: comments.filter((comment) => !duplicates.has(comment)) }
}

/** A comment on a line, with the part of the diff that is shown above it. */
export interface PlacedComment extends ReviewLineComment {
  readonly hunk: string
}

export function addReview(
  pull: DatedPull,
  { event, body }: Pick<ReviewRequest, 'event' | 'body'>,
  stamp: PullEditStamp,
  comments: readonly PlacedComment[] = [],
): Result<DatedPull> {
  const isBodyNeeded = event === 'REQUEST_CHANGES' || (event === 'COMMENT' && comments.length === 0)
  if (isBodyNeeded && body.trim() === '') return no('invalid', `/body: must not be empty for ${event}`)
  if (event !== 'COMMENT' && pull.author === stamp.author) {
    const verb = event === 'APPROVE' ? 'approve' : 'request changes on'
    return no('conflict', `you cannot ${verb} your own pull request; leave a comment instead`)
  }
  const { author, at } = stamp
  const review: PullReview = {
    id: nextItemId(pull),
    author,
    state: REVIEW_STATES[event],
    body,
    submittedAt: at,
  }
  const reviews = [...(pull.reviews ?? []), review]
  const reviewed = { ...pull, reviews, updatedAt: at }
  const changed = comments.reduce<DatedPull>((now, comment) => addThread(now, comment, stamp), reviewed)
  return refuseAboveLimit(reviews) ?? refuseAboveLimit(changed.threads ?? []) ?? yes(changed)
}

function addThread(
  pull: DatedPull,
  { path, line, body, hunk }: PlacedComment,
  stamp: PullEditStamp,
): DatedPull {
  const diffHunk = truncate(hunk, PROSE_CHARS_MAX)
  const empty: PullThread = { id: nextItemId(pull), resolved: false, path, line, diffHunk, comments: [] }
  const threads = [...(pull.threads ?? []), empty]
  const comment = createComment({ ...pull, threads }, body, stamp)
  return replaceThread({ ...pull, threads }, empty, { ...empty, comments: [comment] })
}

/** Appends the reply to the end of the thread, whichever of its comments is answered. */
export function addReply(
  pull: DatedPull,
  { commentId, body }: ReplyRequest,
  stamp: PullEditStamp,
): Result<DatedPull> {
  if (body.trim() === '') return no('invalid', '/body: must not be empty')
  const thread = pull.threads?.find(({ comments }) => comments.some(({ id }) => id === commentId))
  if (thread === undefined) {
    return no('unknown', `no review thread of this pull request has a comment ${printable(commentId)}`)
  }
  const comments = [...thread.comments, createComment(pull, body, stamp)]
  return (
    refuseAboveLimit(comments) ??
    yes({ ...replaceThread(pull, thread, { ...thread, comments }), updatedAt: stamp.at })
  )
}

export function setThreadResolved(
  pull: DatedPull,
  request: ResolveThreadRequest,
  at: string,
): Result<DatedPull> {
  const thread = pull.threads?.find(({ id }) => id === request.threadId)
  if (thread === undefined) {
    return no('unknown', `this pull request has no review thread ${printable(request.threadId)}`)
  }
  if (thread.resolved === request.resolved) return yes(pull)
  return yes({ ...replaceThread(pull, thread, { ...thread, resolved: request.resolved }), updatedAt: at })
}

function replaceThread(pull: DatedPull, previous: PullThread, thread: PullThread): DatedPull {
  return {
    ...pull,
    threads: (pull.threads ?? []).map((candidate) => (candidate === previous ? thread : candidate)),
  }
}

function createComment(pull: DatedPull, body: string, { author, at, url }: PullEditStamp): PullComment {
  const id = nextItemId(pull)
  return { id, author, body, createdAt: at, url: `${url}#${id}` }
}

/** Next number after all generated ids; ids written by hand may have any form. */
function nextItemId({ comments = [], reviews = [], threads = [] }: DatedPull): string {
  const all = [...comments, ...reviews, ...threads, ...threads.flatMap((thread) => thread.comments)]
  const numbers = all.map(({ id }) => Number(GENERATED_ID.exec(id)?.[1] ?? 0))
  return `c${numbers.reduce((most, number) => Math.max(most, number), 0) + 1}`
}

function refuseAboveLimit(items: readonly unknown[]) {
  if (items.length <= FOLLOW_UP_ITEMS_MAX) return undefined
  return no(
    'conflict',
    `the pull request has reached the limit of ${FOLLOW_UP_ITEMS_MAX} entries of this kind`,
  )
}

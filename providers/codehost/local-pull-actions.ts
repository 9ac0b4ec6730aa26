/**
 * What people do to a pull request of the local code host, as changes of its record: allowed when GitHub would allow
 * it, and refused for the same reasons. Nothing here touches a file or a repository.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { FOLLOW_UP_ITEMS_MAX } from '../../protocol/limits.ts'
import type {
  PullComment,
  PullReview,
  PullThread,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../protocol/pulls.ts'
import type { PullState } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { DatedPull } from './local-pull-file.ts'

/** Who does it, when, and where the pull request is to be read. */
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

/** By hand, one may be `open` and a draft as well. */
export function readState({ state, draft }: DatedPull): PullState {
  return state === 'open' && draft === true ? 'draft' : state
}

export const isOpen = ({ state }: DatedPull): boolean => state === 'open' || state === 'draft'

// ---- its state ---------------------------------------------------------------------------------------------------

export function closePull(pull: DatedPull, at: string): Result<DatedPull> {
  if (!isOpen(pull)) return no('conflict', `the pull request is ${pull.state} already`)
  const draft = readState(pull) === 'draft'
  return yes({ ...pull, state: 'closed', draft, updatedAt: at })
}

/** What was a draft is one again. */
export function reopenPull(pull: DatedPull, at: string): Result<DatedPull> {
  if (isOpen(pull)) return no('conflict', 'the pull request is open already')
  if (pull.state === 'merged') return no('conflict', 'the pull request is merged, and cannot be opened again')
  return yes({ ...pull, state: pull.draft === true ? 'draft' : 'open', updatedAt: at })
}

export function markReady(pull: DatedPull, at: string): Result<DatedPull> {
  const state = readState(pull)
  if (state === 'draft') return yes({ ...pull, state: 'open', draft: false, updatedAt: at })
  return no('conflict', state === 'open' ? 'the pull request is no draft' : `the pull request is ${state}`)
}

/** Its commits are in the base branch: that also counts for one that somebody closed at the same moment. */
export function markMerged(pull: DatedPull, at: string): Result<DatedPull> {
  if (pull.state === 'merged') return yes(pull)
  return yes({ ...pull, state: 'merged', draft: false, updatedAt: at, mergedAt: at })
}

// ---- the conversation --------------------------------------------------------------------------------------------

export function addComment(pull: DatedPull, body: string, stamp: PullEditStamp): Result<DatedPull> {
  if (body.trim() === '') return no('invalid', '/body: must say something')
  const comments = [...(pull.comments ?? []), createComment(pull, body, stamp)]
  return refuseAboveLimit(comments) ?? yes({ ...pull, comments, updatedAt: stamp.at })
}

/** The very same object when there are none. Nobody is told of it: for people nothing has changed. */
export function withoutDuplicates(pull: DatedPull, text: string): DatedPull {
  const { comments = [] } = pull
  const [first, ...rest] = comments.filter(({ body }) => body.trimEnd().endsWith(text))
  const duplicates = new Set(rest.filter(({ author }) => author === first?.author))
  return duplicates.size === 0 ? pull : { ...pull, comments: comments.filter((one) => !duplicates.has(one)) }
}

export function addReview(
  pull: DatedPull,
  { event, body }: ReviewRequest,
  stamp: PullEditStamp,
): Result<DatedPull> {
  if (event !== 'APPROVE' && body.trim() === '') return no('invalid', `/body: ${event} must say something`)
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
  return refuseAboveLimit(reviews) ?? yes({ ...pull, reviews, updatedAt: at })
}

/** To whichever comment of a thread, it goes to the thread's end. */
export function addReply(
  pull: DatedPull,
  { commentId, body }: ReplyRequest,
  stamp: PullEditStamp,
): Result<DatedPull> {
  if (body.trim() === '') return no('invalid', '/body: must say something')
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
  return { ...pull, threads: (pull.threads ?? []).map((one) => (one === previous ? thread : one)) }
}

function createComment(pull: DatedPull, body: string, { author, at, url }: PullEditStamp): PullComment {
  const id = nextItemId(pull)
  return { id, author, body, createdAt: at, url: `${url}#${id}` }
}

/** One after all that were made here; what a person wrote by hand has whatever id it has. */
function nextItemId({ comments = [], reviews = [], threads = [] }: DatedPull): string {
  const all = [...comments, ...reviews, ...threads, ...threads.flatMap((thread) => thread.comments)]
  const numbers = all.map(({ id }) => Number(GENERATED_ID.exec(id)?.[1] ?? 0))
  return `c${numbers.reduce((most, number) => Math.max(most, number), 0) + 1}`
}

function refuseAboveLimit(items: readonly unknown[]) {
  if (items.length <= FOLLOW_UP_ITEMS_MAX) return undefined
  return no('conflict', `there are ${FOLLOW_UP_ITEMS_MAX} of these already, and no more fit`)
}

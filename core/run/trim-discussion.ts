/**
 * `trimDiscussion` shortens the discussion of a pull request until it fits into a follow-up's job.
 *
 * It keeps the newest remarks whole as far as possible, and counts what it leaves out.
 */
import {
  FOLLOW_UP_HUNK_CHARS_MAX,
  FOLLOW_UP_ITEMS_MAX,
  FOLLOW_UP_TEXT_CHARS_MAX,
  FOLLOW_UP_THREAD_BYTES_MAX,
} from '../../protocol/limits.ts'
import type { PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import { truncate } from '../safe-text.ts'
import type { PullDiscussion } from './follow-up.ts'

/** Keeps the newest remarks that fit into `bytesMax`, in their original order. */
export function trimDiscussion(
  { pull, omitted, answered }: PullDiscussion,
  bytesMax: number,
): PullDiscussion {
  const remarks = [
    ...pull.threads.map((thread): Remark => ({ is: 'thread', ...shortenThread(thread) })),
    ...pull.reviews.map(
      (review): Remark => ({ is: 'review', at: review.submittedAt, item: shortenBody(review), omitted: 0 }),
    ),
    ...pull.comments.map(
      (comment): Remark => ({ is: 'comment', at: comment.createdAt, item: shortenBody(comment), omitted: 0 }),
    ),
  ]
  const kept = selectNewest(remarks, bytesMax)
  const items = <Is extends Remark['is']>(is: Is) =>
    remarks.filter((remark): remark is Extract<Remark, { is: Is }> => remark.is === is && kept.has(remark))
  const omittedNow = remarks.reduce(
    (sum, remark) => sum + remark.omitted + (kept.has(remark) ? 0 : 1),
    omitted,
  )
  return {
    pull: {
      ...pull,
      threads: items('thread').map(({ item }) => item),
      reviews: items('review').map(({ item }) => item),
      comments: items('comment').map(({ item }) => item),
    },
    omitted: omittedNow,
    answered,
  }
}

/** `omitted`: how many parts of the remark did not fit. */
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

/** Keeps the first comment of a thread and the newest answers. */
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

/** Keeps the end of a hunk, because the discussed line is its last. */
function lastChars(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : text.slice(-charsMax).replace(/^[\uDC00-\uDFFF]/, '')
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

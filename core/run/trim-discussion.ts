/**
 * Shortens the discussion of a pull request until it fits into a follow-up's job, and words failed checks as remarks.
 *
 * The newest remarks are kept whole as far as possible, and the rest is counted. Reports of failed checks are as new as
 * the pull request, so they take only the space that people's remarks leave.
 */
import { FOLLOW_UP_ITEMS_MAX, ID_CHARS_MAX, NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { PullCheck, PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import { jsonBytes } from '../../protocol/text-budget.ts'
import type { PullDetailFacts } from '../ports/code-host.ts'
import { truncate } from '../safe-text.ts'
import type { PullDiscussion } from './follow-up.ts'

/** A remark, a thread of remarks, and the diff hunk of a thread. */
const FOLLOW_UP_TEXT_CHARS_MAX = 16 * 1024
const FOLLOW_UP_THREAD_BYTES_MAX = 64 * 1024
const FOLLOW_UP_HUNK_CHARS_MAX = 4 * 1024

/** Keeps the remarks that fit into `bytesMax`, in their original order: people's first, then checks, the newest of each. */
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
  const kept = selectRemarks(remarks, bytesMax)
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

function selectRemarks(remarks: readonly Remark[], bytesMax: number): ReadonlySet<Remark> {
  const newestFirst = remarks.toSorted((a, b) => (a.at === b.at ? 0 : a.at < b.at ? 1 : -1))
  const peopleFirst = newestFirst.toSorted((a, b) => Number(isOfCheck(a)) - Number(isOfCheck(b)))
  const counts = { thread: 0, review: 0, comment: 0 }
  let left = bytesMax
  const fits = peopleFirst.filter(({ is, item }) => {
    const bytes = jsonBytes(item) + 1
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
  let bytesLeft = FOLLOW_UP_THREAD_BYTES_MAX - (first === undefined ? 0 : jsonBytes(first))
  const kept: PullComment[] = []
  for (const comment of rest.reverse()) {
    bytesLeft -= jsonBytes(comment) + 1
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

// ---- failed checks -----------------------------------------------------------------------------------------------

/** The id and the author of a check remark begin with this prefix. No code host's ids contain a space. */
const CHECK_PREFIX = 'check '

/** A failed check is given to each follow-up until it passes. */
export function remarkOfCheck(
  { name, url: address, conclusion, report }: PullCheck,
  url: string,
  { updatedAt, headSha }: PullDetailFacts,
): PullComment {
  const outcome = `The check failed for commit ${headSha}: ${conclusion ?? 'failure'}.`
  return {
    id: truncate(`${CHECK_PREFIX}${name}`, ID_CHARS_MAX),
    author: truncate(`${CHECK_PREFIX}${name}`, NAME_CHARS_MAX),
    body: report === undefined ? outcome : `${outcome}\n\n${report}`,
    createdAt: updatedAt,
    url: address ?? url,
  }
}

const isOfCheck = (remark: Remark): boolean => remark.is === 'comment' && isCheckRemark(remark.item)

const isCheckRemark = ({ id }: Pick<PullComment, 'id'>): boolean => id.startsWith(CHECK_PREFIX)

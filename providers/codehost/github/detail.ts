/**
 * Reads a pull request with its conversation, files, commits and checks.
 *
 * All parts are requested at once; only the checks wait for the head commit. GitHub computes mergeability on request,
 * so the pull request is read again as long as a person may wait.
 */
import type { Clock } from '../../../core/ports.ts'
import type { PullDetailFacts, PullReference, Urgency } from '../../../core/provider-ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import {
  FOLLOW_UP_ITEMS_MAX,
  PROSE_CHARS_MAX,
  PULL_COMMITS_LISTED_MAX,
  PULL_FILES_LISTED_MAX,
} from '../../../protocol/limits.ts'
import {
  MERGE_METHODS,
  type MergeMethod,
  type PullConversation,
  type PullThread,
} from '../../../protocol/pulls.ts'
import { type GithubApi, type GithubList, PAGE_ITEMS_MAX, PROSE_PAGE_ITEMS_MAX } from './api.ts'
import { type PullChecks, readChecks } from './checks.ts'
import { unexpectedReply } from './errors.ts'
import { asCount, asText, readField } from './fields.ts'
import { toComment, toCommit, toFiles, toPullFacts, toRecords, toReview } from './records.ts'
import { listThreads } from './threads.ts'

/** Pauses between reads of the mergeability; their sum is shorter than a person waits. */
const MERGEABLE_PAUSES_MS = [1_000, 1_000, 1_500]
const PROSE = new Set(['comments', 'reviews'])

export interface PullReadContext {
  readonly api: GithubApi
  readonly clock: Pick<Clock, 'after'>
  readonly place: PullReference
  /** `/repos/owner/name` */
  readonly repo: string
  readonly subject: string
}

export async function readDetail(context: PullReadContext): Promise<Result<PullDetailFacts>> {
  const [head, files, commits, conversation] = await Promise.all([
    readPullWithChecks(context),
    readFiles(context),
    listPart(context, 'pulls', 'commits', PULL_COMMITS_LISTED_MAX),
    readConversation(context),
  ])
  if (!head.ok) return head
  if (!files.ok) return files
  if (!commits.ok) return commits
  if (!conversation.ok) return conversation
  const { pull, checks } = head.value
  const facts = toPullFacts(pull)
  if (facts === undefined) return unexpectedReply(context.subject)
  return yes({
    ...facts,
    ...readDetailFields(pull),
    conversation: toConversation(conversation.value, facts.url),
    files: toFiles(files.value.items),
    commits: toRecords(commits.value.items, toCommit),
    ...checks,
  })
}

function readDetailFields(pull: unknown) {
  const mergeableState = asText(readField(pull, 'mergeable_state')).toLowerCase()
  return {
    body: asText(readField(pull, 'body'), PROSE_CHARS_MAX),
    draft: readField(pull, 'draft') === true,
    headSha: asText(readField(pull, 'head', 'sha')),
    ...(mergeableState === '' ? {} : { mergeableState }),
    ...readMergeMethods(readField(pull, 'base', 'repo')),
    additions: asCount(readField(pull, 'additions')),
    deletions: asCount(readField(pull, 'deletions')),
    changedFiles: asCount(readField(pull, 'changed_files')),
  }
}

/** GitHub tells them to those who may push. */
function readMergeMethods(repo: unknown): { readonly mergeMethods?: MergeMethod[] } {
  const fields = { merge: 'allow_merge_commit', squash: 'allow_squash_merge', rebase: 'allow_rebase_merge' }
  const told = MERGE_METHODS.filter((method) => typeof readField(repo, fields[method]) === 'boolean')
  if (told.length < MERGE_METHODS.length) return {}
  return { mergeMethods: told.filter((method) => readField(repo, fields[method]) === true) }
}

/** Refuses a reply that is not a pull request, so that no action follows from it. */
export async function readPull(
  { api, place, repo, subject }: Omit<PullReadContext, 'clock'>,
  urgency: Urgency = 'person',
): Promise<Result<unknown>> {
  const pull = await api.read(`${repo}/pulls/${place.number}`, subject, urgency)
  return pull.ok && toPullFacts(pull.value) === undefined ? unexpectedReply(subject) : pull
}

// ---- parts of a pull request ----------------------------------------------------------------------------------------

async function listPart(
  { api, place, repo, subject }: PullReadContext,
  kind: 'pulls' | 'issues',
  part: string,
  itemsMax: number,
): Promise<Result<GithubList>> {
  const isProse = PROSE.has(part)
  const perPage = isProse ? PROSE_PAGE_ITEMS_MAX : PAGE_ITEMS_MAX
  const listed = await api.list(`${repo}/${kind}/${place.number}/${part}?per_page=${perPage}`, {
    subject,
    urgency: 'person',
    pagesMax: Math.ceil(itemsMax / perPage),
    // People answer the newest messages.
    ...(isProse ? { keepsNewest: true } : {}),
  })
  if (!listed.ok) return listed
  const { items } = listed.value
  return yes({ ...listed.value, items: isProse ? items.slice(-itemsMax) : items.slice(0, itemsMax) })
}

interface RawConversation {
  readonly comments: readonly unknown[]
  readonly reviews: readonly unknown[]
  readonly threads: readonly PullThread[]
}

async function readConversation(context: PullReadContext): Promise<Result<RawConversation>> {
  const [comments, reviews, threads] = await Promise.all([
    listPart(context, 'issues', 'comments', FOLLOW_UP_ITEMS_MAX),
    listPart(context, 'pulls', 'reviews', FOLLOW_UP_ITEMS_MAX),
    listThreads(context.api, context.place, context.subject),
  ])
  if (!comments.ok) return comments
  if (!reviews.ok) return reviews
  if (!threads.ok) return threads
  return yes({ comments: comments.value.items, reviews: reviews.value.items, threads: threads.value })
}

function toConversation({ comments, reviews, threads }: RawConversation, url: string): PullConversation {
  return {
    comments: toRecords(comments, (comment) => toComment(comment, url)),
    reviews: toRecords(reviews, toReview),
    threads: [...threads],
  }
}

/** GitHub refuses a diff that is too large; the pull request itself still has the file count. */
async function readFiles(context: PullReadContext): Promise<Result<GithubList>> {
  const files = await listPart(context, 'pulls', 'files', PULL_FILES_LISTED_MAX)
  return files.ok || files.refusal.kind !== 'invalid' ? files : yes({ items: [], hasMore: true })
}

interface PullWithChecks {
  readonly pull: unknown
  readonly checks: PullChecks
}

async function readPullWithChecks(context: PullReadContext): Promise<Result<PullWithChecks>> {
  const pull = await readPull(context)
  if (!pull.ok) return pull
  const [settled, checks] = await Promise.all([
    waitForMergeable(context, pull.value),
    readChecks(context, pull.value),
  ])
  return yes({ pull: settled, checks })
}

/** Answers the last successful read, even when the mergeability stays unknown. */
async function waitForMergeable(context: PullReadContext, first: unknown): Promise<unknown> {
  let pull = first
  for (const pauseMs of MERGEABLE_PAUSES_MS) {
    if (readField(pull, 'state') !== 'open' || typeof readField(pull, 'mergeable') === 'boolean') break
    await new Promise<void>((resolve) => context.clock.after(pauseMs, resolve))
    const again = await readPull(context)
    if (!again.ok) break
    pull = again.value
  }
  return pull
}

/**
 * Reads a pull request with its conversation, files, commits and checks.
 *
 * All parts are requested at once; only the checks wait for the head commit. GitHub computes mergeability on request,
 * so the pull request is read again as long as a person may wait.
 */

import type { Clock } from '../../../core/ports/clock.ts'
import type { PullDetailFacts, PullReference, Urgency } from '../../../core/ports/code-host.ts'
import { type Result, yes } from '../../../core/result.ts'
import {
  CHECK_REPORT_CHARS_MAX,
  FOLLOW_UP_ITEMS_MAX,
  PROSE_CHARS_MAX,
  PULL_COMMITS_LISTED_MAX,
  PULL_FILES_LISTED_MAX,
} from '../../../protocol/limits.ts'
import { outcomeOfCheck } from '../../../protocol/pull-concerns.ts'
import {
  MERGE_METHODS,
  type MergeMethod,
  type PullCheck,
  type PullConversation,
  type PullThread,
} from '../../../protocol/pulls.ts'
import { type GithubApi, type GithubList, PAGE_ITEMS_MAX, PROSE_PAGE_ITEMS_MAX } from '../../github/api.ts'
import { unexpectedReply } from '../../github/errors.ts'
import { asCount, asLink, asText } from '../../github/fields.ts'
import { readField } from '../../http/reply-fields.ts'
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

const CHECKS_LISTED_MAX = 500
/** Each one with annotations takes a request of its own. */
const ANNOTATED_CHECKS_MAX = 5
const ANNOTATIONS_MAX = 50
/** Failed checks beyond it are shown without a report. */
const REPORTS_MAX = 20
const RAW_REPORT_CHARS_MAX = 128 * 1024
const CHECK_STATES = new Set(['queued', 'in_progress', 'completed'])
const SHA = /^[0-9a-f]{40,64}$/

interface PullChecks {
  readonly checks: PullCheck[]
  readonly checksLookupFailed?: true
}

/**
 * Reads the checks of a commit, and what the failed ones reported. A token may lack access to check runs or statuses;
 * the other kind is still shown.
 *
 * A report is what the check wrote about itself, else its annotations: a job of GitHub Actions writes only those. The
 * log of a job is not read, because GitHub sends it from another host.
 */
async function readChecks(context: PullReadContext, pull: unknown): Promise<PullChecks> {
  const { api, repo, subject } = context
  const sha = asText(readField(pull, 'head', 'sha'))
  if (!SHA.test(sha)) return { checks: [], checksLookupFailed: true }
  const commitPath = `${repo}/commits/${sha}`
  const listed = (path: string, at: string) =>
    api.list(`${commitPath}/${path}per_page=${PAGE_ITEMS_MAX}`, {
      subject,
      urgency: 'person',
      pagesMax: CHECKS_LISTED_MAX / PAGE_ITEMS_MAX,
      listField: at,
    })
  const [runs, statuses] = await Promise.all([
    listed('check-runs?filter=latest&', 'check_runs'),
    listed('status?', 'statuses'),
  ])
  const reports = runs.ok ? await readReports(context, runs.value.items) : new Map<unknown, string>()
  const checks = [
    ...(runs.ok ? toRecords(runs.value.items, (run) => toCheckFromRun(run, reports.get(run))) : []),
    ...(statuses.ok ? toRecords(statuses.value.items, toCheckFromStatus) : []),
  ]
  const isComplete = [runs, statuses].every((read) => read.ok && !read.value.hasMore)
  return isComplete ? { checks } : { checks, checksLookupFailed: true }
}

/** States such as `waiting` or `pending` count as `queued`. */
function toCheckFromRun(run: unknown, report: string | undefined): PullCheck | undefined {
  const name = asText(readField(run, 'name'))
  if (name === '') return undefined
  const status = asText(readField(run, 'status'))
  const conclusion = asText(readField(run, 'conclusion'))
  const url = asLink(readField(run, 'html_url')) ?? asLink(readField(run, 'details_url'))
  return {
    name,
    // The set holds exactly the states of the type.
    status: CHECK_STATES.has(status) ? (status as PullCheck['status']) : 'queued',
    ...(conclusion === '' ? {} : { conclusion }),
    ...(url === undefined ? {} : { url }),
    source: 'check-run',
    ...(report === undefined ? {} : { report }),
  }
}

/** Reads single statuses only: the combined state is `pending` even without any status. */
function toCheckFromStatus(status: unknown): PullCheck | undefined {
  const name = asText(readField(status, 'context'))
  const state = asText(readField(status, 'state'))
  if (name === '' || state === '') return undefined
  const url = asLink(readField(status, 'target_url'))
  const check: PullCheck = {
    name,
    ...(state === 'pending' ? { status: 'in_progress' } : { status: 'completed', conclusion: state }),
    ...(url === undefined ? {} : { url }),
    source: 'status',
  }
  const report = asText(readField(status, 'description')).trim()
  return outcomeOfCheck(check) === 'failed' && report !== '' ? { ...check, report } : check
}

// ---- reports --------------------------------------------------------------------------------------------------------

/** The reports of the failed check runs, by check run. */
async function readReports(
  context: PullReadContext,
  runs: readonly unknown[],
): Promise<Map<unknown, string>> {
  const failed = toRecords(runs, (run) => {
    const check = toCheckFromRun(run, undefined)
    return check !== undefined && outcomeOfCheck(check) === 'failed' ? run : undefined
  }).slice(0, REPORTS_MAX)
  const reports = new Map<unknown, string>()
  const annotated: unknown[] = []
  for (const run of failed) {
    const own = ownReport(run)
    if (own !== '') reports.set(run, own)
    else if (asCount(readField(run, 'output', 'annotations_count')) > 0) annotated.push(run)
  }
  const read = annotated.slice(0, ANNOTATED_CHECKS_MAX).map(async (run) => {
    const report = await readAnnotations(context, asCount(readField(run, 'id')))
    if (report !== '') reports.set(run, report)
  })
  await Promise.all(read)
  return reports
}

function ownReport(run: unknown): string {
  const parts = ['title', 'summary', 'text'].map((part) =>
    asText(readField(run, 'output', part), RAW_REPORT_CHARS_MAX).trim(),
  )
  return endOf(parts.filter((part) => part !== '').join('\n\n'))
}

/** Empty when they can't be read: a check without its report is still a check. */
async function readAnnotations({ api, repo, subject }: PullReadContext, id: number): Promise<string> {
  const path = `${repo}/check-runs/${id}/annotations?per_page=${ANNOTATIONS_MAX}`
  const listed = await api.list(path, { subject, urgency: 'person', pagesMax: 1 })
  if (!listed.ok) return ''
  return endOf(listed.value.items.map(annotationLine).filter(Boolean).join('\n'))
}

/** `src/a.ts:12: Expected 1, got 2`. A job as a whole is annotated at a folder of GitHub's own. */
function annotationLine(annotation: unknown): string {
  const path = asText(readField(annotation, 'path'))
  const line = asCount(readField(annotation, 'start_line'))
  const message = asText(readField(annotation, 'message'), RAW_REPORT_CHARS_MAX).trim()
  const isOfFile = path !== '' && !path.startsWith('.github')
  return isOfFile ? `${path}:${line}: ${message}` : message
}

/** The end says why a check failed; a cut begins with a whole line where there is one. */
function endOf(report: string): string {
  if (report.length <= CHECK_REPORT_CHARS_MAX) return report
  const end = report.slice(-CHECK_REPORT_CHARS_MAX)
  return end.slice(end.indexOf('\n') + 1).replace(/^\p{Cs}/u, '')
}

/**
 * One pull request with everything that people look at: its conversation, files, commits and checks.
 *
 * All of it is asked for at once, and only the checks wait for the head commit that they are of. Whether it can be
 * merged GitHub first works out when asked: it is asked again for as long as a person waits.
 */

import type { Clock } from '../../../core/ports.ts'
import type { PullDetailFacts, PullPlace, Urgency } from '../../../core/provider-ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import {
  FOLLOW_UP_ITEMS_MAX,
  PROSE_CHARS_MAX,
  PULL_COMMITS_LISTED_MAX,
  PULL_FILES_LISTED_MAX,
} from '../../../protocol/limits.ts'
import type { PullCheck, PullConversation, PullThread } from '../../../protocol/pulls.ts'
import { type GithubApi, type Listed, PAGE_ITEMS_MAX, PROSE_PAGE_ITEMS_MAX } from './api.ts'
import { strange } from './errors.ts'
import { countOf, fieldOf, textOf } from './fields.ts'
import {
  checkRunOf,
  commentOf,
  commitOf,
  filesOf,
  pullFactsOf,
  recordsOf,
  reviewOf,
  statusOf,
} from './records.ts'
import { threadsOf } from './threads.ts'

/** Between one asking and the next whether it can be merged: together less than a person waits. */
const MERGEABLE_PAUSES_MS = [1_000, 1_000, 1_500]
const CHECKS_LISTED_MAX = 500
const PROSE = new Set(['comments', 'reviews'])
const SHA = /^[0-9a-f]{40,64}$/

export interface PullReader {
  readonly api: GithubApi
  readonly clock: Pick<Clock, 'after'>
  readonly place: PullPlace
  /** `/repos/owner/name` */
  readonly repo: string
  readonly subject: string
}

export async function readDetail(reader: PullReader): Promise<Result<PullDetailFacts>> {
  const [head, files, commits, conversation] = await Promise.all([
    readHead(reader),
    readFiles(reader),
    list(reader, 'pulls', 'commits', PULL_COMMITS_LISTED_MAX),
    readConversation(reader),
  ])
  if (!head.ok) return head
  if (!files.ok) return files
  if (!commits.ok) return commits
  if (!conversation.ok) return conversation
  const { pull, checks } = head.value
  const facts = pullFactsOf(pull)
  if (facts === undefined) return strange(reader.subject)
  return yes({
    ...facts,
    ...sizeOf(pull),
    conversation: conversationOf(conversation.value, facts.url),
    files: filesOf(files.value.items),
    commits: recordsOf(commits.value.items, commitOf),
    ...checks,
  })
}

function sizeOf(pull: unknown) {
  const mergeableState = textOf(fieldOf(pull, 'mergeable_state')).toLowerCase()
  return {
    body: textOf(fieldOf(pull, 'body'), PROSE_CHARS_MAX),
    draft: fieldOf(pull, 'draft') === true,
    headSha: textOf(fieldOf(pull, 'head', 'sha')),
    ...(mergeableState === '' ? {} : { mergeableState }),
    additions: countOf(fieldOf(pull, 'additions')),
    deletions: countOf(fieldOf(pull, 'deletions')),
    changedFiles: countOf(fieldOf(pull, 'changed_files')),
  }
}

/** What is no pull request has no state, and nothing is done to it. */
export async function readPull(
  { api, place, repo, subject }: Omit<PullReader, 'clock'>,
  urgency: Urgency = 'person',
): Promise<Result<unknown>> {
  const pull = await api.read(`${repo}/pulls/${place.number}`, subject, urgency)
  return pull.ok && pullFactsOf(pull.value) === undefined ? strange(subject) : pull
}

// ---- what belongs to it ------------------------------------------------------------------------------------------

async function list(
  { api, place, repo, subject }: PullReader,
  kind: 'pulls' | 'issues',
  part: string,
  itemsMax: number,
): Promise<Result<Listed>> {
  const isProse = PROSE.has(part)
  const perPage = isProse ? PROSE_PAGE_ITEMS_MAX : PAGE_ITEMS_MAX
  const listed = await api.list(`${repo}/${kind}/${place.number}/${part}?per_page=${perPage}`, {
    subject,
    urgency: 'person',
    pagesMax: Math.ceil(itemsMax / perPage),
    // What was said last is what people wait for an answer to.
    ...(isProse ? { newest: true } : {}),
  })
  if (!listed.ok) return listed
  const { items } = listed.value
  return yes({ ...listed.value, items: isProse ? items.slice(-itemsMax) : items.slice(0, itemsMax) })
}

interface Conversation {
  readonly comments: readonly unknown[]
  readonly reviews: readonly unknown[]
  readonly threads: readonly PullThread[]
}

async function readConversation(reader: PullReader): Promise<Result<Conversation>> {
  const [comments, reviews, threads] = await Promise.all([
    list(reader, 'issues', 'comments', FOLLOW_UP_ITEMS_MAX),
    list(reader, 'pulls', 'reviews', FOLLOW_UP_ITEMS_MAX),
    threadsOf(reader.api, reader.place, reader.subject),
  ])
  if (!comments.ok) return comments
  if (!reviews.ok) return reviews
  if (!threads.ok) return threads
  return yes({ comments: comments.value.items, reviews: reviews.value.items, threads: threads.value })
}

function conversationOf({ comments, reviews, threads }: Conversation, url: string): PullConversation {
  return {
    comments: recordsOf(comments, (one) => commentOf(one, url)),
    reviews: recordsOf(reviews, reviewOf),
    threads: [...threads],
  }
}

/** A difference too large for GitHub to work out is none to show; how many files it has, the pull request says itself. */
async function readFiles(reader: PullReader): Promise<Result<Listed>> {
  const files = await list(reader, 'pulls', 'files', PULL_FILES_LISTED_MAX)
  return files.ok || files.refusal.kind !== 'invalid' ? files : yes({ items: [], more: true })
}

interface Head {
  readonly pull: unknown
  readonly checks: Checks
}

async function readHead(reader: PullReader): Promise<Result<Head>> {
  const pull = await readPull(reader)
  if (!pull.ok) return pull
  const [settled, checks] = await Promise.all([
    settledPull(reader, pull.value),
    readChecks(reader, pull.value),
  ])
  return yes({ pull: settled, checks })
}

/** What could be read is worth showing, even when it is not known yet whether it can be merged. */
async function settledPull(reader: PullReader, first: unknown): Promise<unknown> {
  let pull = first
  for (const pauseMs of MERGEABLE_PAUSES_MS) {
    if (fieldOf(pull, 'state') !== 'open' || typeof fieldOf(pull, 'mergeable') === 'boolean') break
    await new Promise<void>((resolve) => reader.clock.after(pauseMs, resolve))
    const again = await readPull(reader)
    if (!again.ok) break
    pull = again.value
  }
  return pull
}

// ---- checks ------------------------------------------------------------------------------------------------------

interface Checks {
  readonly checks: PullCheck[]
  readonly checksLookupFailed?: true
}

/** Some tokens may not read the one kind: the other is shown all the same. */
async function readChecks({ api, repo, subject }: PullReader, pull: unknown): Promise<Checks> {
  const sha = textOf(fieldOf(pull, 'head', 'sha'))
  if (!SHA.test(sha)) return { checks: [], checksLookupFailed: true }
  const below = `${repo}/commits/${sha}`
  const listed = (path: string, at: string) =>
    api.list(`${below}/${path}per_page=${PAGE_ITEMS_MAX}`, {
      subject,
      urgency: 'person',
      pagesMax: CHECKS_LISTED_MAX / PAGE_ITEMS_MAX,
      at,
    })
  const [runs, statuses] = await Promise.all([
    listed('check-runs?filter=latest&', 'check_runs'),
    listed('status?', 'statuses'),
  ])
  const checks = [
    ...(runs.ok ? recordsOf(runs.value.items, checkRunOf) : []),
    ...(statuses.ok ? recordsOf(statuses.value.items, statusOf) : []),
  ]
  const isWhole = [runs, statuses].every((one) => one.ok && !one.value.more)
  return isWhole ? { checks } : { checks, checksLookupFailed: true }
}

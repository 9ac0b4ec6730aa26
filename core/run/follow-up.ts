/**
 * Collects what a follow-up works on: the branches of its pull request, and the remarks that no follow-up has
 * received yet.
 *
 * Remarks are untrusted and may be long: the agent receives them as data, within a budget, the newest first. Comments
 * written by this service are left out, or a follow-up would answer itself, and so are remarks that earlier
 * follow-ups received.
 */
import { createHash } from 'node:crypto'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { JobPull } from '../../protocol/frames.ts'
import { JOB_DISCUSSION_BYTES_MAX, UNHEARD_NAMED_MAX } from '../../protocol/limits.ts'
import { redChecks } from '../../protocol/pull-concerns.ts'
import type { PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { createdAtOf } from '../ids.ts'
import type { PullBranches, PullDetailFacts } from '../ports/code-host.ts'
import { no, type Result, yes } from '../result.ts'
import { isSameName } from '../tickets/names.ts'
import { chooseRepo, type RepoChoice, withRepo } from '../tickets/repo.ts'
import { remarkOfCheck, trimDiscussion } from './trim-discussion.ts'

/** The marker in a follow-up's comment, by which a retry finds the comment and does not write it again. */
export function followUpMarker(id: string): string {
  return `<!-- switchyard:follow-up ${id} -->`
}

/** Returns the number of the next follow-up. A follow-up without costs did nothing, and its number is used again. */
export function nextFollowUpNumber(costs: readonly CostEntry[]): number {
  return 1 + Math.max(0, ...costs.map(({ label }) => Number(/^follow-up (\d{1,6})$/.exec(label)?.[1] ?? 0)))
}

/**
 * Chooses the repository of the pull request, whatever the ticket names now. If several keys map to it, the ticket's
 * key wins.
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

/**
 * Returns the run as people see it: with the key of its repository, which a waiting run without a pull request has from
 * its ticket, and any other run from its job. Where `repos` has that repository no more, the ticket chooses again.
 */
export function withRepoOfRun(run: Run, repos: ServiceConfig['repos']): Run {
  const { ticket, status, pull, remote } = run
  const at = pull?.remote ?? (status === 'queued' ? undefined : remote)
  const ofJob = at === undefined ? undefined : chooseRepoOfPull(at, ticket, repos)
  if (ofJob?.ok !== true) {
    const shown = withRepo(ticket, repos)
    return shown === ticket ? run : { ...run, ticket: shown }
  }
  const { key } = ofJob.value
  return key === ticket.repo ? run : { ...run, ticket: { ...ticket, repo: key } }
}

/**
 * Returns the worker that still retains the run's sandbox.
 *
 * @param now wall milliseconds; undefined while the wall clock counts as wrong: every sandbox counts as kept then
 */
export function sandboxHolder(
  { sandbox }: Pick<Run, 'sandbox'>,
  now: number | undefined,
): string | undefined {
  const { id, workerId, retainedUntil } = sandbox
  if (id === undefined || retainedUntil === undefined) return undefined
  return now !== undefined && Date.parse(retainedUntil) <= now ? undefined : workerId
}

// ---- the pull request --------------------------------------------------------------------------------------------

/** The pull request, and the number of remarks that did not fit. */
export interface PullDiscussion {
  readonly pull: JobPull
  readonly omitted: number
  /** Keys of the remarks that earlier follow-ups received. */
  readonly answered: readonly string[]
}

/** Identifies a remark. The key contains the time, because after a deletion another remark may get the same id. */
export function remarkKey(kind: 'comment' | 'review', id: string, at: string): string {
  return createHash('sha256').update(`${kind} ${id} ${at}`).digest('base64url').slice(0, KEY_CHARS)
}

/**
 * Returns the keys of the remarks that a follow-up receives. Threads have no key: a follow-up receives them until
 * somebody resolves them.
 */
export function remarkKeys({ comments, reviews }: Pick<JobPull, 'comments' | 'reviews'>): string[] {
  return [...comments.map(keyOfComment), ...reviews.map(keyOfReview)]
}

/**
 * Selects the remarks for a follow-up. `url`: the pull request's URL in the run. `answered`: keys of remarks that
 * earlier follow-ups received, when they are known. `orders`: whose remarks count. Refuses when there is no branch to push to.
 */
export function readDiscussion(
  url: string,
  detail: PullDetailFacts,
  origin: PullBranches,
  answered?: ReadonlySet<string>,
  orders?: RepoMapping['orders'],
): Result<PullDiscussion> {
  const { headRemote, headBranch, baseBranch } = origin
  if (headRemote === undefined)
    return no('gone', 'the repository that its branch lies in is gone, so nothing can be pushed to it')
  if (headBranch === '' || baseBranch === '')
    return no('gone', 'the code host does not say which branches its pull request is of')
  const { threads, unheard, ...obeyed } = selectOrders(detail.conversation, orders)
  const reviews = obeyed.reviews.filter(asksForSomething)
  const comments = obeyed.comments.filter((comment) => !isOwnComment(comment))
  const since = answeredUntil(detail)
  const isNew = (at: string, key: string) => (answered === undefined ? at >= since : !answered.has(key))
  const pull: JobPull = {
    number: detail.number,
    url,
    headBranch,
    headRemote,
    baseBranch,
    threads: threads.filter(({ resolved }) => !resolved).flatMap(withoutOwnComments),
    reviews: reviews.filter((review) => isNew(review.submittedAt, keyOfReview(review))),
    comments: [
      ...comments.filter((comment) => isNew(comment.createdAt, keyOfComment(comment))),
      ...redChecks(detail.checks).map((check) => remarkOfCheck(check, url, detail)),
    ],
    ...(unheard.length === 0 ? {} : { unheard: [...unheard] }),
  }
  const fresh = new Set(remarkKeys(pull))
  const known = remarkKeys({ comments, reviews }).filter((key) => !fresh.has(key))
  return yes(trimDiscussion({ pull, omitted: 0, answered: known }, JOB_DISCUSSION_BYTES_MAX))
}

/** 96 bits: enough to distinguish a few thousand remarks. */
const KEY_CHARS = 16
const keyOfComment = ({ id, createdAt }: PullComment) => remarkKey('comment', id, createdAt)
const keyOfReview = ({ id, submittedAt }: PullReview) => remarkKey('review', id, submittedAt)

// ---- new remarks -------------------------------------------------------------------------------------------------

/** Matches at the start of a line, where no quotation can contain it. */
const OWN_MARKER = /^<!-- switchyard:/m
const FOLLOW_UP_MARKER = /^<!-- switchyard:follow-up ([\w-]{1,100}) -->/m

const isOwnComment = ({ body }: PullComment): boolean => OWN_MARKER.test(body)

/**
 * Returns the instant up to which remarks count as received when the received remarks are not known: the beginning of
 * the last finished follow-up, which its id encodes.
 *
 * Remarks from while it worked are new, and so are those of the same second, because a code host may not tell which
 * came first. Strangers can write such a marker too, so it counts only in comments of the pull request's author, and
 * never for later remarks.
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

/** An approval without text requests nothing; remarks on single lines are in the review's threads. */
const asksForSomething = ({ body, state }: PullReview): boolean =>
  body.trim() !== '' && !OWN_MARKER.test(body) && !UNSUBMITTED_STATES.has(state.toUpperCase())

function withoutOwnComments(thread: PullThread): PullThread[] {
  const comments = thread.comments.filter((comment) => !isOwnComment(comment))
  return comments.length === 0 ? [] : [{ ...thread, comments }]
}

// ---- whose remarks count -----------------------------------------------------------------------------------------

interface Conversation {
  readonly comments: readonly PullComment[]
  readonly reviews: readonly PullReview[]
  readonly threads: readonly PullThread[]
}

interface ObeyedConversation extends Conversation {
  /** The authors of remarks that were left out. */
  readonly unheard: readonly string[]
}

type Authored = Pick<PullComment | PullReview, 'author' | 'authorMayWrite'>

/**
 * Anybody may comment on a public repository, and an agent can't tell an order from data. So the remarks of people
 * who may not write are left out before any budget is applied, and only their authors are named.
 *
 * @param orders absent: only writers
 */
export function selectOrders(
  { comments, reviews, threads }: Conversation,
  orders: RepoMapping['orders'],
): ObeyedConversation {
  const listed = orders === undefined || orders === 'writers' ? [] : orders
  const unheard = new Set<string>()
  const isObeyed = (remark: Authored): boolean => {
    // A code host that is a folder of this machine has no strangers.
    if (remark.authorMayWrite !== false || listed.some((login) => isSameName(login, remark.author)))
      return true
    unheard.add(remark.author)
    return false
  }
  return {
    comments: comments.filter(isObeyed),
    reviews: reviews.filter(isObeyed),
    threads: threads.flatMap((thread) => {
      const obeyed = thread.comments.filter(isObeyed)
      return obeyed.length === 0 ? [] : [{ ...thread, comments: obeyed }]
    }),
    unheard: [...unheard].slice(0, UNHEARD_NAMED_MAX),
  }
}

/**
 * Pull request host for GitHub: shows pull requests and acts on them for a person.
 *
 * Each action first reads the pull request, so that a refusal names the actual state. GitHub's own refusals keep
 * GitHub's words. A merge names the head commit that was just read.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type {
  PullBranches,
  PullDetailFacts,
  PullFacts,
  PullIdentity,
  PullReference,
  PullRequestApi,
  Urgency,
} from '../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type {
  CodehostRepo,
  MergeRequest,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import type { GithubAddress } from '../../github/address.ts'
import { type GithubApi, parseReply, repoPath } from '../../github/api.ts'
import { errorMessage, unexpectedReply } from '../../github/errors.ts'
import { asText } from '../../github/fields.ts'
import type { HttpReply } from '../../http/http-types.ts'
import { readField } from '../../http/reply-fields.ts'
import { UNSEEN_COMMITS } from '../code-host-driver.ts'
import { isRemote } from '../remote-name.ts'
import { type PullReadContext, readDetail, readPull } from './detail.ts'
import { listPulls, listRepos, readPullStates } from './lists.ts'
import { readState } from './records.ts'
import { findThread, setThreadResolved, threadIdOfComment } from './threads.ts'

const READY_MUTATION = `mutation Ready($id: ID!) { markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { id isDraft } } }`
const MERGED_MESSAGE = 'Pull Request successfully merged'
/** Another merge moved the base branch; the same request may succeed now. */
const BASE_MOVED = /base branch was modified/i

export function createGithubPullHost(api: GithubApi, clock: Pick<Clock, 'after'>): PullRequestApi {
  return new GithubPullHost(api, clock)
}

class GithubPullHost implements PullRequestApi {
  readonly #api: GithubApi
  readonly #clock: Pick<Clock, 'after'>

  constructor(api: GithubApi, clock: Pick<Clock, 'after'>) {
    this.#api = api
    this.#clock = clock
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  repos(): Promise<Result<readonly CodehostRepo[]>> {
    return listRepos(this.#api)
  }

  list(remote: string, urgency: Urgency): Promise<Result<readonly PullFacts[]>> {
    return listPulls(this.#api, remote, urgency)
  }

  async detail(place: PullReference): Promise<Result<PullDetailFacts>> {
    const context = this.#createContext(place)
    return context.ok ? readDetail(context.value) : context
  }

  async branches(place: PullReference): Promise<Result<PullBranches>> {
    const reader = this.#createContext(place)
    if (!reader.ok) return reader
    const pull = await readPull(reader.value)
    return pull.ok ? yes(toPullOrigin(pull.value)) : pull
  }

  async identity(place: PullReference): Promise<Result<PullIdentity>> {
    const reader = this.#createContext(place)
    if (!reader.ok) return reader
    const pull = await readPull(reader.value, 'background')
    return pull.ok ? yes(toPullIdentity(pull.value)) : pull
  }

  states(
    remote: string,
    numbers: readonly number[],
    urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>> {
    return readPullStates(this.#api, remote, numbers, urgency)
  }

  parseUrl(url: string): PullReference | undefined {
    return parseGithubPullUrl(this.#api.address, url)
  }

  // ---- state --------------------------------------------------------------------------------------------------------

  async merge(
    place: PullReference,
    method: MergeRequest['method'],
    seenSha?: string,
  ): Promise<Result<string>> {
    const prepared = await this.#prepareAction(place, 'merge')
    if (!prepared.ok) return prepared
    const { path, subject, pull } = prepared.value
    const payload = { merge_method: method, sha: asText(readField(pull, 'head', 'sha')) }
    // Without `sha` GitHub would merge commits that nobody has seen.
    if (payload.sha === '') return unexpectedReply(subject)
    if (seenSha !== undefined && seenSha !== payload.sha) return UNSEEN_COMMITS
    const first = await this.#api.send('PUT', `${path}/merge`, payload)
    const wasBaseMoved = first.ok && first.value.status === 405 && BASE_MOVED.test(errorMessage(first.value))
    const reply = wasBaseMoved ? await this.#api.send('PUT', `${path}/merge`, payload) : first
    const merged = parseReply(reply, subject)
    if (merged.ok && readField(merged.value, 'merged') === true)
      return yes(asText(readField(merged.value, 'message'), TEXT_CHARS_MAX) || MERGED_MESSAGE)
    if (await this.#isMergedAt(place, payload.sha, reply)) return yes(MERGED_MESSAGE)
    return merged.ok ? unexpectedReply(subject) : merged
  }

  async close(place: PullReference): Promise<Result<void>> {
    const prepared = await this.#prepareAction(place, 'close')
    if (!prepared.ok) return prepared
    return withoutValue(
      await this.#api.write('PATCH', prepared.value.path, prepared.value.subject, { state: 'closed' }),
    )
  }

  /** GitHub restores the draft state. */
  async reopen(place: PullReference): Promise<Result<void>> {
    const prepared = await this.#prepareAction(place, 'reopen')
    if (!prepared.ok) return prepared
    const opened = await this.#api.write('PATCH', prepared.value.path, prepared.value.subject, {
      state: 'open',
    })
    // The request holds a state only, so `invalid` means a conflict with the current state.
    if (!opened.ok && opened.refusal.kind === 'invalid') return no('conflict', opened.refusal.message)
    return withoutValue(opened)
  }

  async markReady(place: PullReference): Promise<Result<void>> {
    const at = await this.#prepareAction(place, 'ready')
    if (!at.ok) return at
    const { pull, subject } = at.value
    const variables = { id: asText(readField(pull, 'node_id')) }
    return withoutValue(await this.#api.graphql({ query: READY_MUTATION, variables, subject, writes: true }))
  }

  // ---- conversation -------------------------------------------------------------------------------------------------

  /** The number may belong to an issue, which accepts comments too; check first. */
  async comment(place: PullReference, body: string): Promise<Result<void>> {
    if (isBlank(body)) return EMPTY_BODY
    const prepared = await this.#prepareAction(place, 'comment')
    if (!prepared.ok) return prepared
    const { subject, repo } = prepared.value
    return withoutValue(
      await this.#api.write('POST', `${repo}/issues/${place.number}/comments`, subject, { body }),
    )
  }

  /** GitHub itself refuses a review with a line outside the diff as a whole. */
  async review(place: PullReference, { event, body, comments = [] }: ReviewRequest): Promise<Result<void>> {
    const context = this.#createContext(place)
    if (!context.ok) return context
    const { repo, subject } = context.value
    const isBodyNeeded = event === 'REQUEST_CHANGES' || (event === 'COMMENT' && comments.length === 0)
    if (isBodyNeeded && isBlank(body)) return EMPTY_BODY
    if (comments.some((comment) => isBlank(comment.body))) return EMPTY_BODY
    const payload = {
      event,
      ...(body === '' ? {} : { body }),
      ...(comments.length === 0 ? {} : { comments }),
    }
    return withoutValue(
      await this.#api.write('POST', `${repo}/pulls/${place.number}/reviews`, subject, payload),
    )
  }

  async reply(place: PullReference, { commentId, body }: ReplyRequest): Promise<Result<void>> {
    if (isBlank(body)) return EMPTY_BODY
    const context = this.#createContext(place)
    if (!context.ok) return context
    const { repo, subject } = context.value
    const thread = await findThread(this.#api, place, threadIdOfComment(commentId))
    if (!thread.ok) return thread
    const { firstCommentId } = thread.value
    if (firstCommentId === '') return unexpectedReply(subject)
    const path = `${repo}/pulls/${place.number}/comments/${firstCommentId}/replies`
    return withoutValue(await this.#api.write('POST', path, subject, { body }))
  }

  async resolveThread(
    place: PullReference,
    { threadId, resolved }: ResolveThreadRequest,
  ): Promise<Result<void>> {
    const context = this.#createContext(place)
    if (!context.ok) return context
    const thread = await findThread(this.#api, place, threadId)
    return thread.ok ? setThreadResolved(this.#api, thread.value.id, resolved) : thread
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  #createContext(place: PullReference): Result<PullReadContext> {
    const repo = repoPath(place.remote)
    if (!repo.ok) return repo
    const subject = `pull request ${place.number} of ${place.remote}`
    return yes({ api: this.#api, clock: this.#clock, place, repo: repo.value, subject })
  }

  /** Reads the pull request and checks that its state allows the action. */
  async #prepareAction(place: PullReference, action: GithubPullAction): Promise<Result<PreparedPullAction>> {
    const context = this.#createContext(place)
    if (!context.ok) return context
    const { repo, subject } = context.value
    const pull = await readPull(context.value)
    if (!pull.ok) return pull
    const obstacle = findObstacle(action, pull.value)
    if (obstacle !== undefined) return no('conflict', `${subject} ${obstacle}`)
    return yes({ repo, path: `${repo}/pulls/${place.number}`, subject, pull: pull.value })
  }

  /** The merge may have succeeded although the reply was lost or replaced by a proxy. */
  async #isMergedAt(place: PullReference, sha: string, reply: Result<HttpReply>): Promise<boolean> {
    const isUncertain = reply.ok ? reply.value.status >= 500 : reply.refusal.kind === 'failed'
    const context = this.#createContext(place)
    if (!isUncertain || !context.ok) return false
    const now = await readPull(context.value)
    return now.ok && readState(now.value) === 'merged' && readField(now.value, 'head', 'sha') === sha
  }
}

/** Needs no token, unlike all requests. */
export function parseGithubPullUrl({ site }: GithubAddress, url: string): PullReference | undefined {
  if (!URL.canParse(url)) return undefined
  const { origin, pathname } = new URL(url)
  if (origin !== new URL(site).origin) return undefined
  const [, remote = '', digits] = /^\/([^/]+\/[^/]+)\/pull\/(\d{1,15})(?:\/|$)/.exec(pathname) ?? []
  return isRemote(remote) && Number(digits) >= 1 ? { remote, number: Number(digits) } : undefined
}

function toPullIdentity(pull: unknown): PullIdentity {
  return {
    ...toPullOrigin(pull),
    url: asText(readField(pull, 'html_url')),
    state: readState(pull),
    body: asText(readField(pull, 'body'), PROSE_CHARS_MAX),
  }
}

/** GitHub sends null for a deleted fork. */
function toPullOrigin(pull: unknown): PullBranches {
  const head = asText(readField(pull, 'head', 'repo', 'full_name'))
  return {
    headRemote: isRemote(head) ? head : undefined,
    headBranch: asText(readField(pull, 'head', 'ref')),
    headSha: asText(readField(pull, 'head', 'sha')),
    baseBranch: asText(readField(pull, 'base', 'ref')),
  }
}

interface PreparedPullAction {
  readonly repo: string
  readonly path: string
  readonly subject: string
  readonly pull: unknown
}

// ---- rules by state -------------------------------------------------------------------------------------------------

type GithubPullAction = 'merge' | 'close' | 'reopen' | 'ready' | 'comment'

const OBSTACLES: Readonly<Record<GithubPullAction, Partial<Record<PullState, string>>>> = {
  merge: {
    merged: 'is merged already',
    closed: 'is closed; reopen it first',
    draft: 'is a draft; mark it as ready first',
  },
  close: { merged: 'is merged already', closed: 'is closed already' },
  reopen: { merged: 'is merged, and cannot be reopened', open: 'is open already', draft: 'is open already' },
  ready: { merged: 'is merged already', closed: 'is closed; reopen it first', open: 'is not a draft' },
  comment: {},
}

function findObstacle(action: GithubPullAction, pull: unknown): string | undefined {
  return OBSTACLES[action][readState(pull)]
}

const isBlank = (body: string): boolean => body.trim() === ''
const EMPTY_BODY = no('invalid', 'body: must not be empty')

const withoutValue = (answer: Result<unknown>): Result<void> => (answer.ok ? yes(undefined) : answer)

/**
 * GitHub as people use it through the service: looking at pull requests, and doing something about one.
 *
 * What is to be done is first compared with how the pull request is right now, so that a refusal says what is the
 * matter; what GitHub itself refuses, it says in its own words. A merge is of exactly the head commit that was just
 * read.
 */

import type { Clock } from '../../../core/ports.ts'
import type {
  PullDetailFacts,
  PullFacts,
  PullHost,
  PullOrigin,
  PullPlace,
  Urgency,
} from '../../../core/provider-ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type {
  CodehostRepo,
  MergeRequest,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import type { HttpReply } from '../../http/http.ts'
import { isRemote } from '../remote-name.ts'
import { type GithubApi, repoPath, valueIn } from './api.ts'
import { type PullReader, readDetail, readPull } from './detail.ts'
import { messageOf, strange } from './errors.ts'
import { fieldOf, textOf } from './fields.ts'
import { listPulls, listRepos, pullStates } from './lists.ts'
import { stateOf } from './records.ts'
import { ownThread, settleThread, threadOfComment } from './threads.ts'

const READY = `mutation Ready($id: ID!) { markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { id isDraft } } }`
const MERGED = 'Pull Request successfully merged'
/** Somebody else's merge came between: what was asked for is as good as before. */
const BASE_MOVED = /base branch was modified/i

export function githubPullHost(api: GithubApi, clock: Pick<Clock, 'after'>): PullHost {
  return new GithubPullHost(api, clock)
}

class GithubPullHost implements PullHost {
  readonly #api: GithubApi
  readonly #clock: Pick<Clock, 'after'>

  constructor(api: GithubApi, clock: Pick<Clock, 'after'>) {
    this.#api = api
    this.#clock = clock
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  repos(): Promise<Result<readonly CodehostRepo[]>> {
    return listRepos(this.#api)
  }

  list(remote: string, urgency: Urgency): Promise<Result<readonly PullFacts[]>> {
    return listPulls(this.#api, remote, urgency)
  }

  async detail(place: PullPlace): Promise<Result<PullDetailFacts>> {
    const reader = this.#reader(place)
    return reader.ok ? readDetail(reader.value) : reader
  }

  async origin(place: PullPlace): Promise<Result<PullOrigin>> {
    const reader = this.#reader(place)
    if (!reader.ok) return reader
    const pull = await readPull(reader.value)
    return pull.ok ? yes(originOf(pull.value)) : pull
  }

  states(
    remote: string,
    numbers: readonly number[],
    urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>> {
    return pullStates(this.#api, remote, numbers, urgency)
  }

  placeOf(url: string): PullPlace | undefined {
    if (!URL.canParse(url)) return undefined
    const { origin, pathname } = new URL(url)
    if (origin !== new URL(this.#api.address.site).origin) return undefined
    const [, remote = '', digits] = /^\/([^/]+\/[^/]+)\/pull\/(\d{1,15})(?:\/|$)/.exec(pathname) ?? []
    return isRemote(remote) && Number(digits) >= 1 ? { remote, number: Number(digits) } : undefined
  }

  // ---- merging, closing --------------------------------------------------------------------------------------------

  async merge(place: PullPlace, method: MergeRequest['method']): Promise<Result<string>> {
    const at = await this.#before(place, 'merge')
    if (!at.ok) return at
    const { path, subject, pull } = at.value
    const order = { merge_method: method, sha: textOf(fieldOf(pull, 'head', 'sha')) }
    // Without one, whatever is there by then would be merged.
    if (order.sha === '') return strange(subject)
    const first = await this.#api.send('PUT', `${path}/merge`, order)
    const isOvertaken = first.ok && first.value.status === 405 && BASE_MOVED.test(messageOf(first.value))
    const reply = isOvertaken ? await this.#api.send('PUT', `${path}/merge`, order) : first
    const merged = valueIn(reply, subject)
    if (merged.ok && fieldOf(merged.value, 'merged') === true)
      return yes(textOf(fieldOf(merged.value, 'message'), TEXT_CHARS_MAX) || MERGED)
    if (await this.#isMergedAt(place, order.sha, reply)) return yes(MERGED)
    return merged.ok ? strange(subject) : merged
  }

  async close(place: PullPlace): Promise<Result<void>> {
    const at = await this.#before(place, 'close')
    if (!at.ok) return at
    return done(await this.#api.write('PATCH', at.value.path, at.value.subject, { state: 'closed' }))
  }

  /** One that was a draft is one again: GitHub keeps that. */
  async reopen(place: PullPlace): Promise<Result<void>> {
    const at = await this.#before(place, 'reopen')
    if (!at.ok) return at
    const opened = await this.#api.write('PATCH', at.value.path, at.value.subject, { state: 'open' })
    // Nothing else than a state is sent, so nothing else can be wrong with it.
    if (!opened.ok && opened.refusal.kind === 'invalid') return no('conflict', opened.refusal.message)
    return done(opened)
  }

  async ready(place: PullPlace): Promise<Result<void>> {
    const at = await this.#before(place, 'ready')
    if (!at.ok) return at
    const { pull, subject } = at.value
    const variables = { id: textOf(fieldOf(pull, 'node_id')) }
    return done(await this.#api.graphql({ query: READY, variables, subject, writes: true }))
  }

  // ---- talking -----------------------------------------------------------------------------------------------------

  /** Its number may be an issue's, which takes comments too: those were not meant. */
  async comment(place: PullPlace, body: string): Promise<Result<void>> {
    if (isBlank(body)) return SAY_SOMETHING
    const at = await this.#before(place, 'talk')
    if (!at.ok) return at
    const { subject, repo } = at.value
    return done(await this.#api.write('POST', `${repo}/issues/${place.number}/comments`, subject, { body }))
  }

  async review(place: PullPlace, { event, body }: ReviewRequest): Promise<Result<void>> {
    const reader = this.#reader(place)
    if (!reader.ok) return reader
    const { repo, subject } = reader.value
    if (event !== 'APPROVE' && isBlank(body)) return SAY_SOMETHING
    const order = { event, ...(body === '' ? {} : { body }) }
    return done(await this.#api.write('POST', `${repo}/pulls/${place.number}/reviews`, subject, order))
  }

  async reply(place: PullPlace, { commentId, body }: ReplyRequest): Promise<Result<void>> {
    if (isBlank(body)) return SAY_SOMETHING
    const reader = this.#reader(place)
    if (!reader.ok) return reader
    const { repo, subject } = reader.value
    const thread = await ownThread(this.#api, place, threadOfComment(commentId))
    if (!thread.ok) return thread
    const { firstComment } = thread.value
    if (firstComment === '') return strange(subject)
    const path = `${repo}/pulls/${place.number}/comments/${firstComment}/replies`
    return done(await this.#api.write('POST', path, subject, { body }))
  }

  async resolveThread(place: PullPlace, { threadId, resolved }: ResolveThreadRequest): Promise<Result<void>> {
    const reader = this.#reader(place)
    if (!reader.ok) return reader
    const thread = await ownThread(this.#api, place, threadId)
    return thread.ok ? settleThread(this.#api, thread.value.id, resolved) : thread
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  #reader(place: PullPlace): Result<PullReader> {
    const repo = repoPath(place.remote)
    if (!repo.ok) return repo
    const subject = `pull request ${place.number} of ${place.remote}`
    return yes({ api: this.#api, clock: this.#clock, place, repo: repo.value, subject })
  }

  /** The pull request as it is, when this may be done to it. */
  async #before(place: PullPlace, deed: Deed): Promise<Result<Before>> {
    const reader = this.#reader(place)
    if (!reader.ok) return reader
    const { repo, subject } = reader.value
    const pull = await readPull(reader.value)
    if (!pull.ok) return pull
    const obstacle = obstacleTo(deed, pull.value)
    if (obstacle !== undefined) return no('conflict', `${subject} ${obstacle}`)
    return yes({ repo, path: `${repo}/pulls/${place.number}`, subject, pull: pull.value })
  }

  /** An answer may get lost on its way, or a proxy may give one of its own, and it was merged all the same. */
  async #isMergedAt(place: PullPlace, sha: string, reply: Result<HttpReply>): Promise<boolean> {
    const isDoubtful = reply.ok ? reply.value.status >= 500 : reply.refusal.kind === 'failed'
    const reader = this.#reader(place)
    if (!isDoubtful || !reader.ok) return false
    const now = await readPull(reader.value)
    return now.ok && stateOf(now.value) === 'merged' && fieldOf(now.value, 'head', 'sha') === sha
  }
}

/** A fork that was deleted is null. */
function originOf(pull: unknown): PullOrigin {
  const head = textOf(fieldOf(pull, 'head', 'repo', 'full_name'))
  return {
    headRemote: isRemote(head) ? head : undefined,
    headBranch: textOf(fieldOf(pull, 'head', 'ref')),
    headSha: textOf(fieldOf(pull, 'head', 'sha')),
    baseBranch: textOf(fieldOf(pull, 'base', 'ref')),
  }
}

interface Before {
  readonly repo: string
  readonly path: string
  readonly subject: string
  readonly pull: unknown
}

// ---- what may be done in which state -------------------------------------------------------------------------------

type Deed = 'merge' | 'close' | 'reopen' | 'ready' | 'talk'

const OBSTACLES: Readonly<Record<Deed, Partial<Record<PullState, string>>>> = {
  merge: {
    merged: 'is merged already',
    closed: 'is closed; reopen it first',
    draft: 'is a draft; mark it as ready first',
  },
  close: { merged: 'is merged already', closed: 'is closed already' },
  reopen: { merged: 'is merged, and cannot be reopened', open: 'is open already', draft: 'is open already' },
  ready: { merged: 'is merged already', closed: 'is closed; reopen it first', open: 'is not a draft' },
  talk: {},
}

function obstacleTo(deed: Deed, pull: unknown): string | undefined {
  return OBSTACLES[deed][stateOf(pull)]
}

const isBlank = (body: string): boolean => body.trim() === ''
const SAY_SOMETHING = no('invalid', 'body: must not be empty; say something')

const done = (answer: Result<unknown>): Result<void> => (answer.ok ? yes(undefined) : answer)

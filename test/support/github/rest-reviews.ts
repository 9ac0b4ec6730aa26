/** Routes of reviews and review comments. */
import { reviewCommentJson, reviewJson } from './comment-shapes.ts'
import type { History } from './history.ts'
import {
  type DiffSide,
  isPull,
  type PullIssue,
  type Repo,
  type Review,
  type ReviewComment,
  type Thread,
} from './records.ts'
import {
  type AuthenticatedCall,
  created,
  type GithubReply,
  invalid,
  notFound,
  ofPull,
  ofRepo,
  ok,
  paged,
  type RestCall,
  type RestHandler,
  unprocessable,
} from './replies.ts'
import type { Json, JsonContext } from './repo-shapes.ts'
import type { GithubWorld } from './world.ts'

export const reviewRoutes: Readonly<Record<string, RestHandler>> = {
  'GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews': ofPull('pull', (call, issue) =>
    paged(call, issue.pull.reviews, (review) => reviewJson(call, issue, review)),
  ),
  'POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews': ofPull('say', createReview),
  'GET /repos/{owner}/{repo}/pulls/{pull_number}/comments': ofPull('pull', listComments),
  'POST /repos/{owner}/{repo}/pulls/{pull_number}/comments': ofPull('say', createComment),
  'POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies': ofPull('say', createReply),
  'GET /repos/{owner}/{repo}/pulls/comments/{comment_id}': ofRepo('pull', oneComment),
}

// ---- reviews --------------------------------------------------------------------------------------------------------

const STATE_AFTER = {
  APPROVE: 'APPROVED',
  REQUEST_CHANGES: 'CHANGES_REQUESTED',
  COMMENT: 'COMMENTED',
} as const
const OWN_REFUSED: Readonly<Record<string, string>> = {
  APPROVE: 'Can not approve your own pull request',
  REQUEST_CHANGES: 'Can not request changes on your own pull request',
}

async function createReview(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply> {
  const { body, viewer } = call
  const event = typeof body.event === 'string' ? body.event : ''
  const comments = Array.isArray(body.comments) ? body.comments.map(readCommentInput) : []
  const text = typeof body.body === 'string' ? body.body : ''
  const own = issue.author === viewer.person.login ? OWN_REFUSED[event] : undefined
  if (own !== undefined) return unprocessable(own)
  const wordless = text.trim() === '' && (event === 'REQUEST_CHANGES' || comments.length === 0)
  if (event !== 'APPROVE' && event !== '' && wordless) return unprocessable("Body can't be blank")
  const state = event === '' ? 'PENDING' : STATE_AFTER[event as keyof typeof STATE_AFTER]
  if (state === undefined) return invalid('PullRequestReview', { code: 'invalid', field: 'event' })
  const placed = await Promise.all(comments.map((note) => place(call.history, issue, note)))
  const errors = placed.flatMap((placement) => ('error' in placement ? [placement.error] : []))
  if (errors.length > 0) return unprocessable(...errors)
  const commitSha = typeof body.commit_id === 'string' ? body.commit_id : issue.pull.headSha
  const review = addReview(call.world, issue, { author: viewer.person.login, state, body: text, commitSha })
  for (const placement of placed) if ('hunk' in placement) addThread(call.world, issue, placement, review)
  return ok(reviewJson(call, issue, review))
}

export function addReview(
  world: GithubWorld,
  issue: PullIssue,
  fields: Pick<Review, 'author' | 'state' | 'body'> & { commitSha?: string },
): Review {
  const now = world.now()
  const review: Review = { commitSha: issue.pull.headSha, ...fields, id: world.newId(), submittedMs: now }
  issue.pull.reviews.push(review)
  issue.updatedMs = now
  return review
}

// ---- threads --------------------------------------------------------------------------------------------------------

export interface CommentInput {
  readonly path: string
  readonly line: number | null
  readonly startLine: number | null
  readonly side: DiffSide
  readonly body: string
}

interface LineCommentInput extends CommentInput {
  readonly hunk: string
}

function readCommentInput(raw: unknown): CommentInput {
  const { path, line, start_line, side, body } = raw as Json
  return {
    path: String(path ?? ''),
    line: typeof line === 'number' ? line : null,
    startLine: typeof start_line === 'number' ? start_line : null,
    side: side === 'LEFT' ? 'LEFT' : 'RIGHT',
    body: String(body ?? ''),
  }
}

export async function place(
  history: History,
  issue: PullIssue,
  note: CommentInput,
): Promise<LineCommentInput | { readonly error: string }> {
  const found = await history.hunkAt(issue, note)
  return 'error' in found ? found : { ...note, hunk: found.hunk }
}

export function addThread(
  world: GithubWorld,
  issue: PullIssue,
  note: LineCommentInput,
  review: Review,
): Thread {
  const first = reviewComment(world, review, note.body)
  const thread: Thread = {
    id: world.newId(),
    path: note.path,
    line: note.line,
    startLine: note.startLine,
    side: note.side,
    commitSha: issue.pull.headSha,
    diffHunk: note.hunk,
    resolvedBy: null,
    comments: [first],
  }
  issue.pull.threads.push(thread)
  issue.updatedMs = world.now()
  return thread
}

function reviewComment(world: GithubWorld, { id, author }: Review, body: string): ReviewComment {
  const now = world.now()
  return { id: world.newId(), reviewId: id, author, body, createdMs: now, updatedMs: now }
}

/** A reply creates a review of its own. */
export function addReply(
  world: GithubWorld,
  issue: PullIssue,
  thread: Thread,
  fields: { readonly author: string | null; readonly body: string },
): ReviewComment {
  const review = addReview(world, issue, { author: fields.author, state: 'COMMENTED', body: '' })
  const comment = reviewComment(world, review, fields.body)
  thread.comments.push(comment)
  return comment
}

async function shape(
  scene: JsonContext & { history: History },
  issue: PullIssue,
  thread: Thread,
  comment: ReviewComment,
) {
  return reviewCommentJson(scene, issue, thread, comment, await scene.history.lineOf(issue, thread))
}

function commentsOf({ pull }: PullIssue): { thread: Thread; comment: ReviewComment }[] {
  return pull.threads.flatMap((thread) => thread.comments.map((comment) => ({ thread, comment })))
}

function listComments(call: RestCall, issue: PullIssue): Promise<GithubReply> {
  const since = Date.parse(call.query.get('since') ?? '') || 0
  const down = call.query.get('direction') === 'desc' ? -1 : 1
  const all = commentsOf(issue)
    .filter(({ comment }) => comment.updatedMs >= since)
    .sort((a, b) => down * (a.comment.id - b.comment.id))
  return paged(call, all, ({ thread, comment }) => shape(call, issue, thread, comment))
}

async function createComment(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply> {
  const note = readCommentInput(call.body)
  if (note.body.trim() === '')
    return invalid('PullRequestReviewComment', { code: 'missing_field', field: 'body' })
  const placed = await place(call.history, issue, note)
  if ('error' in placed) return unprocessable(placed.error)
  const review = addReview(call.world, issue, {
    author: call.viewer.person.login,
    state: 'COMMENTED',
    body: '',
  })
  const thread = addThread(call.world, issue, placed, review)
  return created(await shape(call, issue, thread, thread.comments[0]))
}

/** GitHub accepts replies to the first comment of a thread only. */
async function createReply(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply> {
  const id = Number(call.params.comment_id)
  const thread = issue.pull.threads.find(({ comments }) => comments[0].id === id)
  if (thread === undefined) return notFound()
  const body = String(call.body.body ?? '')
  if (body.trim() === '') return invalid('PullRequestReviewComment', { code: 'missing_field', field: 'body' })
  const comment = addReply(call.world, issue, thread, { author: call.viewer.person.login, body })
  return created(await shape(call, issue, thread, comment))
}

async function oneComment(call: RestCall, repo: Repo): Promise<GithubReply> {
  for (const issue of [...repo.issues.values()].filter(isPull)) {
    const found = commentsOf(issue).find(({ comment }) => comment.id === Number(call.params.comment_id))
    if (found !== undefined) return ok(await shape(call, issue, found.thread, found.comment))
  }
  return notFound()
}

/**
 * The threads that hang on single lines. Only GitHub's GraphQL knows whether one is resolved.
 *
 * A comment's id here begins with its thread's, for a reply goes to the thread, whichever of its comments a person
 * answers. Of more than can be shown the newest are, and of a long thread its beginning and its end. Whose thread it is
 * is asked before anything is done to it: an id may come from anywhere.
 */
import type { PullPlace } from '../../../core/provider-ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import {
  FOLLOW_UP_ITEMS_MAX,
  ID_CHARS_MAX,
  PATH_CHARS_MAX,
  PROSE_CHARS_MAX,
} from '../../../protocol/limits.ts'
import type { PullComment, PullThread } from '../../../protocol/pulls.ts'
import { ownerOf } from '../remote-name.ts'
import type { GithubApi } from './api.ts'
import { fieldOf, instantOf, linkOf, listOf, loginOf, numberOf, textOf } from './fields.ts'
import { recordsOf } from './records.ts'

const THREADS_PER_PAGE = 100
/** Of a longer thread, besides the one that it began with. */
const THREAD_COMMENTS_MAX = 50
const PAGES_MAX = Math.ceil(FOLLOW_UP_ITEMS_MAX / THREADS_PER_PAGE)
/** What GraphQL takes as a whole number. */
const INT_MAX = 2 ** 31 - 1
const BETWEEN = ':'

const THREADS = `query Threads($owner: String!, $name: String!, $n: Int!, $before: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $n) {
      reviewThreads(last: ${THREADS_PER_PAGE}, before: $before) {
        pageInfo { hasPreviousPage startCursor }
        nodes {
          id isResolved path line originalLine
          began: comments(first: 1) { nodes { id body diffHunk createdAt url author { login } } }
          comments(last: ${THREAD_COMMENTS_MAX}) { nodes { id body diffHunk createdAt url author { login } } }
        }
      }
    }
  }
}`

const OWNER_OF_THREAD = `query Thread($owner: String!, $name: String!, $n: Int!, $thread: ID!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $n) { id } }
  node(id: $thread) {
    ... on PullRequestReviewThread { id pullRequest { id } comments(first: 1) { nodes { fullDatabaseId } } }
  }
}`

const RESOLVE = `mutation Resolve($id: ID!) { resolveReviewThread(input: { threadId: $id }) { thread { id isResolved } } }`
const UNRESOLVE = `mutation Unresolve($id: ID!) { unresolveReviewThread(input: { threadId: $id }) { thread { id isResolved } } }`

export async function threadsOf(
  api: GithubApi,
  place: PullPlace,
  subject: string,
): Promise<Result<readonly PullThread[]>> {
  const threads: PullThread[] = []
  let before: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const variables = { ...variablesOf(place), ...(before === undefined ? {} : { before }) }
    const data: Result<unknown> = await api.graphql({ query: THREADS, variables, subject })
    if (!data.ok) return data
    const page = fieldOf(data.value, 'repository', 'pullRequest', 'reviewThreads')
    threads.unshift(...recordsOf(listOf(fieldOf(page, 'nodes')), threadOf))
    const cursor = fieldOf(page, 'pageInfo', 'startCursor')
    if (fieldOf(page, 'pageInfo', 'hasPreviousPage') !== true || typeof cursor !== 'string') break
    before = cursor
  }
  return yes(threads)
}

export interface OwnThread {
  readonly id: string
  /** A reply goes to it, by the number that REST knows it by. */
  readonly firstComment: string
}

/** Refused when it is no thread of this pull request. */
export async function ownThread(api: GithubApi, place: PullPlace, id: string): Promise<Result<OwnThread>> {
  const { number, remote } = place
  const missing = no('unknown', `pull request ${number} of ${remote} has no such thread; look at it again`)
  if (number > INT_MAX) return missing
  const variables = { ...variablesOf(place), thread: id }
  const data = await api.graphql({ query: OWNER_OF_THREAD, variables, subject: 'thread of this id' })
  if (!data.ok) return data.refusal.kind === 'unknown' ? missing : data
  const pull = fieldOf(data.value, 'repository', 'pullRequest', 'id')
  const isOwn = typeof pull === 'string' && fieldOf(data.value, 'node', 'pullRequest', 'id') === pull
  if (!isOwn) return missing
  const [first] = listOf(fieldOf(data.value, 'node', 'comments', 'nodes'))
  return yes({ id, firstComment: digitsOf(fieldOf(first, 'fullDatabaseId')) })
}

export function threadOfComment(commentId: string): string {
  const end = commentId.indexOf(BETWEEN)
  return end < 0 ? commentId : commentId.slice(0, end)
}

/** Twice is once. */
export async function settleThread(api: GithubApi, id: string, resolved: boolean): Promise<Result<void>> {
  const query = resolved ? RESOLVE : UNRESOLVE
  const done = await api.graphql({ query, variables: { id }, subject: 'this thread', writes: true })
  return done.ok ? yes(undefined) : done
}

function variablesOf({ remote, number }: PullPlace) {
  const owner = ownerOf(remote)
  return { owner, name: remote.slice(owner.length + 1), n: number }
}

function threadOf(thread: unknown): PullThread | undefined {
  const id = fieldOf(thread, 'id')
  if (typeof id !== 'string' || id === '' || id.length > ID_CHARS_MAX) return undefined
  const newest = listOf(fieldOf(thread, 'comments', 'nodes'))
  const [began] = listOf(fieldOf(thread, 'began', 'nodes'))
  const isThere = began === undefined || newest.some((node) => fieldOf(node, 'id') === fieldOf(began, 'id'))
  const nodes = isThere ? newest : [began, ...newest]
  const line = numberOf(fieldOf(thread, 'line')) ?? numberOf(fieldOf(thread, 'originalLine'))
  return {
    id,
    resolved: fieldOf(thread, 'isResolved') === true,
    path: textOf(fieldOf(thread, 'path'), PATH_CHARS_MAX),
    ...(line === undefined ? {} : { line }),
    diffHunk: textOf(fieldOf(nodes[0], 'diffHunk'), PROSE_CHARS_MAX),
    comments: recordsOf(nodes, (node) => commentOf(node, id)),
  }
}

function commentOf(node: unknown, thread: string): PullComment | undefined {
  const id = `${thread}${BETWEEN}${textOf(fieldOf(node, 'id'))}`
  const [createdAt, url] = [instantOf(fieldOf(node, 'createdAt')), linkOf(fieldOf(node, 'url'))]
  if (id.length > ID_CHARS_MAX || createdAt === undefined || url === undefined) return undefined
  const body = textOf(fieldOf(node, 'body'), PROSE_CHARS_MAX)
  return { id, author: loginOf(fieldOf(node, 'author')), body, createdAt, url }
}

/** They come as text, for they may be too large for a number. */
function digitsOf(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : textOf(value)
  return /^\d{1,30}$/.test(text) ? text : ''
}

/**
 * Reads and resolves review threads. Only GitHub's GraphQL API knows whether a thread is resolved.
 *
 * Comment ids begin with the id of their thread, because a reply goes to the thread. Beyond the limits only the newest
 * threads are read, and of a long thread its first and its newest comments. An id may come from anywhere, so the
 * thread's pull request is checked before any action.
 */
import type { PullReference } from '../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import {
  FOLLOW_UP_ITEMS_MAX,
  ID_CHARS_MAX,
  PATH_CHARS_MAX,
  PROSE_CHARS_MAX,
} from '../../../protocol/limits.ts'
import type { PullComment, PullThread } from '../../../protocol/pulls.ts'
import type { GithubApi } from '../../github/api.ts'
import {
  asInstant,
  asLink,
  asList,
  asPositiveInteger,
  asText,
  mayWrite,
  readLogin,
} from '../../github/fields.ts'
import { readField } from '../../http/reply-fields.ts'
import { ownerOf } from '../remote-name.ts'
import { toRecords } from './records.ts'

const THREADS_PER_PAGE = 100
/** Newest comments of a thread, besides its first one. */
const THREAD_COMMENTS_MAX = 50
const PAGES_MAX = Math.ceil(FOLLOW_UP_ITEMS_MAX / THREADS_PER_PAGE)
/** Largest GraphQL `Int`. */
const INT_MAX = 2 ** 31 - 1
const ID_SEPARATOR = ':'

const THREADS_QUERY = `query Threads($owner: String!, $name: String!, $n: Int!, $before: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $n) {
      reviewThreads(last: ${THREADS_PER_PAGE}, before: $before) {
        pageInfo { hasPreviousPage startCursor }
        nodes {
          id isResolved path line originalLine
          began: comments(first: 1) { nodes { id body diffHunk createdAt url author { login } authorAssociation } }
          comments(last: ${THREAD_COMMENTS_MAX}) { nodes { id body diffHunk createdAt url author { login } authorAssociation } }
        }
      }
    }
  }
}`

const THREAD_OWNER_QUERY = `query Thread($owner: String!, $name: String!, $n: Int!, $thread: ID!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $n) { id } }
  node(id: $thread) {
    ... on PullRequestReviewThread { id pullRequest { id } comments(first: 1) { nodes { fullDatabaseId } } }
  }
}`

const RESOLVE_MUTATION = `mutation Resolve($id: ID!) { resolveReviewThread(input: { threadId: $id }) { thread { id isResolved } } }`
const UNRESOLVE_MUTATION = `mutation Unresolve($id: ID!) { unresolveReviewThread(input: { threadId: $id }) { thread { id isResolved } } }`

export async function listThreads(
  api: GithubApi,
  place: PullReference,
  subject: string,
): Promise<Result<readonly PullThread[]>> {
  const threads: PullThread[] = []
  let before: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const variables = { ...variablesOf(place), ...(before === undefined ? {} : { before }) }
    const data: Result<unknown> = await api.graphql({ query: THREADS_QUERY, variables, subject })
    if (!data.ok) return data
    const page = readField(data.value, 'repository', 'pullRequest', 'reviewThreads')
    threads.unshift(...toRecords(asList(readField(page, 'nodes')), toThread))
    const cursor = readField(page, 'pageInfo', 'startCursor')
    if (readField(page, 'pageInfo', 'hasPreviousPage') !== true || typeof cursor !== 'string') break
    before = cursor
  }
  return yes(threads)
}

export interface ReplyTarget {
  readonly id: string
  /** REST id of the first comment, to which replies are sent. */
  readonly firstCommentId: string
}

/** Refuses a thread of another pull request. */
export async function findThread(
  api: GithubApi,
  place: PullReference,
  id: string,
): Promise<Result<ReplyTarget>> {
  const { number, remote } = place
  const missing = no(
    'unknown',
    `pull request ${number} of ${remote} has no such thread; reload the pull request`,
  )
  if (number > INT_MAX) return missing
  const variables = { ...variablesOf(place), thread: id }
  const data = await api.graphql({ query: THREAD_OWNER_QUERY, variables, subject: 'thread of this id' })
  if (!data.ok) return data.refusal.kind === 'unknown' ? missing : data
  const pull = readField(data.value, 'repository', 'pullRequest', 'id')
  const isOwn = typeof pull === 'string' && readField(data.value, 'node', 'pullRequest', 'id') === pull
  if (!isOwn) return missing
  const [first] = asList(readField(data.value, 'node', 'comments', 'nodes'))
  return yes({ id, firstCommentId: asDigits(readField(first, 'fullDatabaseId')) })
}

export function threadIdOfComment(commentId: string): string {
  const end = commentId.indexOf(ID_SEPARATOR)
  return end < 0 ? commentId : commentId.slice(0, end)
}

/** Idempotent. */
export async function setThreadResolved(
  api: GithubApi,
  id: string,
  resolved: boolean,
): Promise<Result<void>> {
  const query = resolved ? RESOLVE_MUTATION : UNRESOLVE_MUTATION
  const done = await api.graphql({ query, variables: { id }, subject: 'this thread', writes: true })
  return done.ok ? yes(undefined) : done
}

const variablesOf = ({ remote, number }: PullReference) => ({ ...variablesOfRepo(remote), n: number })

export function variablesOfRepo(remote: string) {
  const owner = ownerOf(remote)
  return { owner, name: remote.slice(owner.length + 1) }
}

function toThread(thread: unknown): PullThread | undefined {
  const id = readField(thread, 'id')
  if (typeof id !== 'string' || id === '' || id.length > ID_CHARS_MAX) return undefined
  const newest = asList(readField(thread, 'comments', 'nodes'))
  const [firstComment] = asList(readField(thread, 'began', 'nodes'))
  const hasFirst =
    firstComment === undefined ||
    newest.some((node) => readField(node, 'id') === readField(firstComment, 'id'))
  const nodes = hasFirst ? newest : [firstComment, ...newest]
  const line =
    asPositiveInteger(readField(thread, 'line')) ?? asPositiveInteger(readField(thread, 'originalLine'))
  return {
    id,
    resolved: readField(thread, 'isResolved') === true,
    path: asText(readField(thread, 'path'), PATH_CHARS_MAX),
    ...(line === undefined ? {} : { line }),
    diffHunk: asText(readField(nodes[0], 'diffHunk'), PROSE_CHARS_MAX),
    comments: toRecords(nodes, (node) => toThreadComment(node, id)),
  }
}

function toThreadComment(node: unknown, thread: string): PullComment | undefined {
  const id = `${thread}${ID_SEPARATOR}${asText(readField(node, 'id'))}`
  const [createdAt, url] = [asInstant(readField(node, 'createdAt')), asLink(readField(node, 'url'))]
  if (id.length > ID_CHARS_MAX || createdAt === undefined || url === undefined) return undefined
  const body = asText(readField(node, 'body'), PROSE_CHARS_MAX)
  const author = readLogin(readField(node, 'author'))
  const authorMayWrite = mayWrite(readField(node, 'authorAssociation'))
  return { id, author, authorMayWrite, body, createdAt, url }
}

/** GraphQL sends large ids as text. */
function asDigits(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : asText(value)
  return /^\d{1,30}$/.test(text) ? text : ''
}

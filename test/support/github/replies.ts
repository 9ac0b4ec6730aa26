/** REST replies with GitHub's messages, and the definition of routes. */
import type { GithubFaults } from './faults.ts'
import type { History } from './history.ts'
import { fullNameOf, type Issue, isPull, type PullIssue, type Repo, type Role } from './records.ts'
import { type Json, type JsonContext, lacksPermission } from './repo-shapes.ts'
import type { GithubViewer } from './world.ts'

export interface RestCall extends JsonContext {
  readonly history: History
  readonly faults: GithubFaults
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly body: Json
  /** Address of the next page of this list, without its query. */
  readonly listUrl: string
}

/** A call by an authenticated person, as all writes are. */
export type AuthenticatedCall = RestCall & { readonly viewer: GithubViewer }

export interface GithubReply {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A body that is sent as it is. */
export class RawBody {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type RestHandler = (call: RestCall) => GithubReply | Promise<GithubReply>

const DOCS = 'https://docs.github.com/rest'
const PAGE_ITEMS = 30
const PAGE_ITEMS_MAX = 100

export function ok(body: unknown): GithubReply {
  return { status: 200, body }
}

export function created(body: unknown): GithubReply {
  return { status: 201, body }
}

export function refused(
  status: number,
  message: string,
  more: Json = {},
  headers: Record<string, string> = {},
): GithubReply {
  return { status, body: { message, ...more, documentation_url: DOCS, status: String(status) }, headers }
}

export function notFound(): GithubReply {
  return refused(404, 'Not Found')
}

/** A validation error with a single message or code. */
export function invalid(
  resource: string,
  what: { code?: string; field?: string; message?: string },
): GithubReply {
  return refused(422, 'Validation Failed', { errors: [{ resource, code: 'custom', ...what }] })
}

/** Form of the error in the review routes. */
export function unprocessable(...errors: string[]): GithubReply {
  return refused(422, 'Unprocessable Entity', { errors })
}

/** A page of a list with its links. */
export async function paged<T>(
  call: RestCall,
  all: readonly T[],
  shape: (item: T) => Json | Promise<Json>,
  wrap: (page: Json[]) => unknown = (page) => page,
): Promise<GithubReply> {
  const size = Math.min(count(call.query.get('per_page'), PAGE_ITEMS), PAGE_ITEMS_MAX)
  const page = count(call.query.get('page'), 1)
  const items = await Promise.all(all.slice((page - 1) * size, page * size).map(shape))
  const link = linkOf(call, page, Math.max(1, Math.ceil(all.length / size)))
  return { status: 200, body: wrap(items), headers: link === '' ? {} : { link } }
}

function count(text: string | null, otherwise: number): number {
  const value = Number(text)
  return Number.isInteger(value) && value > 0 ? value : otherwise
}

function linkOf({ query, listUrl }: RestCall, page: number, last: number): string {
  const to = (target: number, rel: string): string => {
    const next = new URLSearchParams(query)
    next.set('page', String(target))
    return `<${listUrl}?${next}>; rel="${rel}"`
  }
  const back = page > 1 ? [to(Math.min(page - 1, last), 'prev')] : []
  const on = page < last ? [to(page + 1, 'next'), to(last, 'last')] : []
  return [...back, ...on, ...(page > 1 ? [to(1, 'first')] : [])].join(', ')
}

// ---- routes ---------------------------------------------------------------------------------------------------------

/** A route of a repository: 404 without read access, 403 without write access. */
export function ofRepo(
  wanted: 'pull',
  handle: (call: RestCall, repo: Repo) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofRepo(
  wanted: 'push' | 'say',
  handle: (call: AuthenticatedCall, repo: Repo) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofRepo(
  wanted: Role | 'say',
  handle: (call: AuthenticatedCall, repo: Repo) => GithubReply | Promise<GithubReply>,
): RestHandler {
  return (call) => {
    const fullName = `${call.params.owner}/${call.params.repo}`
    const repo = call.world.repo(fullName)
    if (repo === undefined || !call.world.may(call.viewer, repo, 'pull')) return notFound()
    if (call.faults.down.has(fullNameOf(repo))) return refused(503, 'Service Unavailable')
    // Reading routes need no viewer, and their handlers use none.
    if (wanted === 'pull') return handle(call as AuthenticatedCall, repo)
    if (call.viewer === undefined) return refused(401, 'Requires authentication')
    return writeRefusal(call, repo, wanted) ?? handle({ ...call, viewer: call.viewer }, repo)
  }
}

/** Commenting needs read access only; other writes need push access. */
function writeRefusal(call: RestCall, repo: Repo, wanted: Role | 'say'): GithubReply | undefined {
  if (repo.archived) return refused(403, 'Repository was archived so is read-only.')
  if (wanted === 'say' ? call.viewer?.token.readOnly !== true : call.world.may(call.viewer, repo, wanted))
    return undefined
  if (!lacksPermission(call.viewer)) return refused(403, 'Must have admin rights to Repository.')
  return refused(
    403,
    'Resource not accessible by personal access token',
    {},
    {
      'x-accepted-github-permissions': 'pull_requests=write',
    },
  )
}

export function ofIssue(
  wanted: 'pull',
  handle: (call: RestCall, issue: Issue) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofIssue(
  wanted: 'push' | 'say',
  handle: (call: AuthenticatedCall, issue: Issue) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofIssue(
  wanted: 'pull' | 'push' | 'say',
  handle: (call: AuthenticatedCall, issue: Issue) => GithubReply | Promise<GithubReply>,
): RestHandler {
  const find = (call: AuthenticatedCall, repo: Repo): GithubReply | Promise<GithubReply> => {
    const issue = repo.issues.get(Number(call.params.issue_number))
    if (issue === undefined) return notFound()
    return repo.hasIssues || isPull(issue) ? handle(call, issue) : issuesOff()
  }
  // The same function either way; only reading does without a viewer.
  return wanted === 'pull'
    ? ofRepo('pull', find as (call: RestCall, repo: Repo) => GithubReply)
    : ofRepo(wanted, find)
}

export function issuesOff(): GithubReply {
  return refused(410, 'Issues has been disabled in this repository.')
}

/** A route of a pull request, brought up to date with its branches first. */
export function ofPull(
  wanted: 'pull',
  handle: (call: RestCall, issue: PullIssue) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofPull(
  wanted: 'push' | 'say',
  handle: (call: AuthenticatedCall, issue: PullIssue) => GithubReply | Promise<GithubReply>,
): RestHandler
export function ofPull(
  wanted: 'pull' | 'push' | 'say',
  handle: (call: AuthenticatedCall, issue: PullIssue) => GithubReply | Promise<GithubReply>,
): RestHandler {
  const find = async (call: AuthenticatedCall, repo: Repo): Promise<GithubReply> => {
    const issue = repo.issues.get(Number(call.params.pull_number))
    if (issue === undefined || !isPull(issue)) return notFound()
    await call.history.settle(issue)
    return handle(call, issue)
  }
  // The same function either way; only reading does without a viewer.
  return wanted === 'pull'
    ? ofRepo('pull', find as (call: RestCall, repo: Repo) => Promise<GithubReply>)
    : ofRepo(wanted, find)
}

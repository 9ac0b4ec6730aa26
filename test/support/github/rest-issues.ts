/** Routes of issues, labels and comments. Pull requests are issues too. */
import { commentJson } from './comment-shapes.ts'
import { issueJson } from './pull-shapes.ts'
import { type Comment, type Issue, isPull, type Repo } from './records.ts'
import {
  type AuthenticatedCall,
  created,
  type GithubReply,
  invalid,
  issuesOff,
  notFound,
  ofIssue,
  ofRepo,
  ok,
  paged,
  type RestCall,
  type RestHandler,
  refused,
} from './replies.ts'
import { labelJson } from './repo-shapes.ts'
import type { GithubWorld } from './world.ts'

const TITLE_CHARS_MAX = 256
const BODY_CHARS_MAX = 65_536
const ISSUE = '/repos/{owner}/{repo}/issues/{issue_number}'

export const issueRoutes: Readonly<Record<string, RestHandler>> = {
  'GET /issues': myIssues,
  'GET /repos/{owner}/{repo}/issues': ofRepo('pull', listIssues),
  'POST /repos/{owner}/{repo}/issues': ofRepo('say', openIssue),
  [`GET ${ISSUE}`]: ofIssue('pull', (call, issue) => ok(issueJson(call, issue))),
  [`PATCH ${ISSUE}`]: ofIssue('say', editIssue),
  [`GET ${ISSUE}/comments`]: ofIssue('pull', listComments),
  [`POST ${ISSUE}/comments`]: ofIssue('say', createComment),
  [`GET ${ISSUE}/labels`]: ofIssue('pull', labelsOf),
  [`POST ${ISSUE}/labels`]: ofIssue('push', (call, issue) => {
    setLabels(call.world, issue, [...issue.labels, ...names(call.body.labels)], call.viewer.person.login)
    return labelsOf(call, issue)
  }),
  [`PUT ${ISSUE}/labels`]: ofIssue('push', (call, issue) => {
    setLabels(call.world, issue, names(call.body.labels), call.viewer.person.login)
    return labelsOf(call, issue)
  }),
  [`DELETE ${ISSUE}/labels/{name}`]: ofIssue('push', removeLabel),
  [`GET ${ISSUE}/dependencies/blocked_by`]: ofIssue('pull', (call, issue) =>
    paged(call, issue.blockedBy, (blocker) => issueJson(call, blocker)),
  ),
  'GET /repos/{owner}/{repo}/issues/comments/{comment_id}': ofRepo('pull', (call, repo) => {
    const found = commentIn(call, repo)
    return found === undefined ? notFound() : ok(commentJson(call, ...found))
  }),
  'PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}': ofRepo('say', editComment),
  'DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}': ofRepo('say', removeComment),
}

// ---- lists ----------------------------------------------------------------------------------------------------------

async function listIssues(call: RestCall, repo: Repo): Promise<GithubReply> {
  if (!repo.hasIssues) return issuesOff()
  const mine = (issue: Issue): boolean => wanted(call.query, issue)
  const found = [...repo.issues.values()].filter(mine)
  return paged(call, sorted(call.query, found), (issue) => issueJson(call, issue))
}

/** Issues of all repositories assigned to the viewer. */
function myIssues(call: RestCall): GithubReply | Promise<GithubReply> {
  const { viewer, world } = call
  if (viewer === undefined) return refused(401, 'Requires authentication')
  const found = [...world.everyIssue()].filter(
    (issue) =>
      world.may(viewer, issue.repo, 'pull') &&
      (call.query.get('filter') === 'all' || issue.assignees.includes(viewer.person.login)) &&
      wanted(call.query, issue),
  )
  return paged(call, sorted(call.query, found), (issue) => issueJson(call, issue))
}

function wanted(query: URLSearchParams, issue: Issue): boolean {
  const state = query.get('state') ?? 'open'
  const labels = (query.get('labels') ?? '').split(',').filter(Boolean)
  const has = (name: string): boolean =>
    issue.labels.some((label) => label.toLowerCase() === name.trim().toLowerCase())
  return (
    (state === 'all' || issue.state === state) &&
    labels.every(has) &&
    issue.updatedMs >= (Date.parse(query.get('since') ?? '') || 0) &&
    named(query.get('assignee'), issue.assignees) &&
    (query.get('creator') ?? issue.author) === issue.author &&
    named(query.get('milestone'), issue.milestone === null ? [] : [String(issue.milestone.number)])
  )
}

function named(filter: string | null, values: readonly string[]): boolean {
  if (filter === null) return true
  if (filter === 'none') return values.length === 0
  return filter === '*' ? values.length > 0 : values.includes(filter)
}

function sorted(query: URLSearchParams, issues: Issue[]): Issue[] {
  const sort = query.get('sort') ?? 'created'
  const down = query.get('direction') === 'asc' ? -1 : 1
  const value = (issue: Issue): number => {
    if (sort === 'comments') return issue.comments.length
    return sort === 'updated' ? issue.updatedMs : issue.createdMs
  }
  return issues.sort((a, b) => down * (value(b) - value(a) || b.number - a.number))
}

// ---- creating and editing -------------------------------------------------------------------------------------------

export interface IssueOrder {
  readonly title: string
  readonly body?: string | null
  readonly author: string | null
  readonly labels?: readonly string[]
  readonly assignees?: readonly string[]
  readonly milestone?: string
  readonly createdMs?: number
}

export function addIssue(world: GithubWorld, repo: Repo, order: IssueOrder): Issue {
  const now = order.createdMs ?? world.now()
  const issue: Issue = {
    id: world.newId(),
    number: repo.nextNumber++,
    repo,
    title: order.title,
    body: order.body ?? null,
    author: order.author,
    state: 'open',
    stateReason: null,
    labels: [],
    assignees: [...(order.assignees ?? [])],
    milestone: repo.milestones.find(({ title }) => title === order.milestone) ?? null,
    createdMs: now,
    updatedMs: now,
    closedMs: null,
    closedBy: null,
    locked: false,
    comments: [],
    blockedBy: [],
    edits: [],
    events: [],
    pull: undefined,
  }
  setLabels(world, issue, order.labels ?? [], order.author, now)
  repo.issues.set(issue.number, issue)
  return issue
}

function openIssue(call: AuthenticatedCall, repo: Repo): GithubReply {
  const { body, viewer, world } = call
  if (!repo.hasIssues) return issuesOff()
  const title = String(body.title ?? '')
  if (title.trim() === '') return invalid('Issue', { code: 'missing_field', field: 'title' })
  if (title.length > TITLE_CHARS_MAX)
    return invalid('Issue', { field: 'title', message: 'title is too long (maximum is 256 characters)' })
  if (String(body.body ?? '').length > BODY_CHARS_MAX)
    return invalid('Issue', { field: 'body', message: 'body is too long (maximum is 65536 characters)' })
  // GitHub silently ignores these fields without write access.
  const may = world.may(viewer, repo, 'push')
  const order = {
    title,
    body: typeof body.body === 'string' ? body.body : null,
    author: viewer.person.login,
    labels: may ? names(body.labels) : [],
    assignees: may ? names(body.assignees) : [],
  }
  return created(issueJson(call, addIssue(world, repo, order)))
}

async function editIssue(call: AuthenticatedCall, issue: Issue): Promise<GithubReply> {
  const { body, viewer, world } = call
  const may = world.may(viewer, issue.repo, 'push')
  if (!may && issue.author !== viewer.person.login)
    return refused(403, 'Must have admin rights to Repository.')
  if (body.title === '') return invalid('Issue', { code: 'missing_field', field: 'title' })
  if (body.state !== undefined && body.state !== 'open' && body.state !== 'closed')
    return invalid('Issue', { code: 'invalid', field: 'state' })
  const opens = body.state === 'open' && issue.state === 'closed'
  const message = opens && isPull(issue) ? await call.history.staysClosed(issue) : undefined
  if (message !== undefined) return invalid('Issue', { field: 'state', message })
  const by = viewer.person.login
  if (typeof body.title === 'string') {
    if (body.title !== issue.title) issue.events.push({ id: world.newId(), ms: world.now(), by })
    issue.title = body.title
  }
  if (typeof body.body === 'string' || body.body === null) {
    issue.edits.push({ by, ms: world.now() })
    issue.body = body.body
  }
  if (may && body.labels !== undefined) setLabels(world, issue, names(body.labels), by)
  if (may && body.assignees !== undefined) issue.assignees = names(body.assignees)
  if (body.state !== undefined) setState(world, issue, body.state, viewer.person.login, body.state_reason)
  issue.updatedMs = world.now()
  return ok(issueJson(call, issue))
}

export function setState(
  world: GithubWorld,
  issue: Issue,
  state: 'open' | 'closed',
  by: string,
  reason?: unknown,
): void {
  if (state === issue.state) return
  const closed = state === 'closed'
  const usual = issue.pull === undefined ? (closed ? 'completed' : 'reopened') : null
  Object.assign(issue, {
    state,
    stateReason: typeof reason === 'string' ? reason : usual,
    closedMs: closed ? world.now() : null,
    closedBy: closed ? by : null,
    updatedMs: world.now(),
  })
}

// ---- labels ---------------------------------------------------------------------------------------------------------

/** Creates unknown labels. */
export function setLabels(
  world: GithubWorld,
  issue: Issue,
  wantedNames: readonly string[],
  by: string | null,
  at = world.now(),
): void {
  const labels = wantedNames.map((name) => world.label(issue.repo, name).name)
  for (const label of new Set(labels))
    if (!issue.labels.includes(label)) issue.events.push({ id: world.newId(), ms: at, by, label })
  issue.labels = [...new Set(labels)]
  issue.updatedMs = at
}

function names(value: unknown): string[] {
  if (!Array.isArray(value)) return []
  return value.map((item) =>
    String(typeof item === 'object' && item !== null ? Reflect.get(item, 'name') : item),
  )
}

function labelsOf(call: RestCall, { repo, labels }: Issue): Promise<GithubReply> {
  const all = labels.flatMap((name) => repo.labels.get(name.toLowerCase()) ?? [])
  return paged(call, all, (label) => labelJson(call, repo, label))
}

function removeLabel(call: AuthenticatedCall, issue: Issue): GithubReply | Promise<GithubReply> {
  const name = (call.params.name ?? '').toLowerCase()
  const left = issue.labels.filter((label) => label.toLowerCase() !== name)
  if (left.length === issue.labels.length) return refused(404, 'Label does not exist')
  setLabels(call.world, issue, left, call.viewer.person.login)
  return labelsOf(call, issue)
}

// ---- comments -------------------------------------------------------------------------------------------------------

export function addComment(
  world: GithubWorld,
  issue: Issue,
  fields: { readonly author: string | null; readonly body: string },
): Comment {
  const now = world.now()
  const comment = { ...fields, id: world.newId(), createdMs: now, updatedMs: now }
  issue.comments.push(comment)
  issue.updatedMs = now
  return comment
}

function listComments(call: RestCall, issue: Issue): Promise<GithubReply> {
  const since = Date.parse(call.query.get('since') ?? '') || 0
  const recent = issue.comments.filter(({ updatedMs }) => updatedMs >= since)
  return paged(call, recent, (comment) => commentJson(call, issue, comment))
}

function createComment(call: AuthenticatedCall, issue: Issue): GithubReply {
  const body = String(call.body.body ?? '')
  if (body.trim() === '')
    return invalid('IssueComment', { code: 'unprocessable', field: 'data', message: 'Body cannot be blank' })
  if (issue.locked && !call.world.may(call.viewer, issue.repo, 'push'))
    return refused(403, 'Unable to create comment because issue is locked.')
  return created(
    commentJson(call, issue, addComment(call.world, issue, { author: call.viewer.person.login, body })),
  )
}

function commentIn({ params }: RestCall, repo: Repo): [Issue, Comment] | undefined {
  for (const issue of repo.issues.values()) {
    const comment = issue.comments.find(({ id }) => id === Number(params.comment_id))
    if (comment !== undefined) return [issue, comment]
  }
  return undefined
}

function removeComment(call: AuthenticatedCall, repo: Repo): GithubReply {
  const found = commentIn(call, repo)
  if (found === undefined) return notFound()
  const [issue, comment] = found
  if (comment.author !== call.viewer.person.login && !call.world.may(call.viewer, repo, 'push'))
    return refused(403, 'Must have admin rights to Repository.')
  issue.comments.splice(issue.comments.indexOf(comment), 1)
  return { status: 204 }
}

function editComment(call: AuthenticatedCall, repo: Repo): GithubReply {
  const found = commentIn(call, repo)
  if (found === undefined) return notFound()
  const [issue, comment] = found
  if (comment.author !== call.viewer.person.login && !call.world.may(call.viewer, repo, 'push'))
    return refused(403, 'Must have admin rights to Repository.')
  comment.body = String(call.body.body ?? '')
  comment.updatedMs = call.world.now()
  issue.updatedMs = call.world.now()
  return ok(commentJson(call, issue, comment))
}

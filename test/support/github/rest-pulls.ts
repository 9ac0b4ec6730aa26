/** Routes of pull requests: listing, opening, editing, merging. */
import { type MergeMethod, mergedCommit, moveBranch } from './merging.ts'
import { branchTip, git, isAncestor } from './plumbing.ts'
import { commitJson, fileJson, fullPullJson, pullJson } from './pull-shapes.ts'
import { isPull, type PullIssue, type Repo } from './records.ts'
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
  refused,
} from './replies.ts'

/** GitHub's messages about merging begin with it. */
const PULL_REQUEST = 'Pull Request'

export const pullRoutes: Readonly<Record<string, RestHandler>> = {
  'GET /repos/{owner}/{repo}/pulls': ofRepo('pull', listPulls),
  'POST /repos/{owner}/{repo}/pulls': ofRepo('say', openPull),
  'GET /repos/{owner}/{repo}/pulls/{pull_number}': ofPull('pull', async (call, issue) =>
    onePull(call, issue, await call.history.mergeable(issue, 'read')),
  ),
  'PATCH /repos/{owner}/{repo}/pulls/{pull_number}': ofPull('say', editPull),
  'GET /repos/{owner}/{repo}/pulls/{pull_number}/files': ofPull('pull', async (call, issue) =>
    paged(call, await call.history.files(issue), (file) => fileJson(call, issue, file)),
  ),
  'GET /repos/{owner}/{repo}/pulls/{pull_number}/commits': ofPull('pull', async (call, issue) =>
    paged(call, await call.history.commits(issue), (commit) => commitJson(call, issue.repo, commit)),
  ),
  'GET /repos/{owner}/{repo}/pulls/{pull_number}/merge': ofPull('pull', (_, { pull }) =>
    pull.mergedMs === null ? notFound() : { status: 204 },
  ),
  'PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge': ofPull('push', merge),
}

async function onePull(call: RestCall, issue: PullIssue, mergeable: boolean | null): Promise<GithubReply> {
  return ok(await fullPullJson(call, call.history, issue, mergeable))
}

// ---- lists ----------------------------------------------------------------------------------------------------------

async function listPulls(call: RestCall, repo: Repo): Promise<GithubReply> {
  const pulls = [...repo.issues.values()].filter(isPull)
  for (const issue of pulls) await call.history.settle(issue)
  const { query } = call
  const state = query.get('state') ?? 'open'
  const [head, base] = [query.get('head'), query.get('base')]
  const wanted = pulls.filter(
    (issue) =>
      (state === 'all' || issue.state === state) &&
      (head === null || !head.includes(':') || call.history.label(issue) === head) &&
      (base === null || issue.pull.baseRef === base),
  )
  return paged(call, sorted(query, wanted), (issue) => pullJson(call, issue))
}

function sorted(query: URLSearchParams, pulls: PullIssue[]): PullIssue[] {
  const sort = query.get('sort') ?? 'created'
  const down = (query.get('direction') ?? (sort === 'created' ? 'desc' : 'asc')) === 'desc' ? -1 : 1
  const key = sort === 'updated' ? 'updatedMs' : 'createdMs'
  return pulls.sort((a, b) => down * (a[key] - b[key] || a.number - b.number))
}

// ---- opening --------------------------------------------------------------------------------------------------------

async function openPull(call: AuthenticatedCall, repo: Repo): Promise<GithubReply> {
  const { body, history, viewer, world } = call
  const [headRepo, head] = headOf(call, repo)
  const base = String(body.base ?? '')
  const title = String(body.title ?? '')
  if (title === '') return invalid('PullRequest', { code: 'missing_field', field: 'title' })
  const baseTip = branchTip(repo.path, base)
  if (baseTip === undefined) return invalid('PullRequest', { code: 'invalid', field: 'base' })
  const headTip = headRepo && branchTip(headRepo.path, head)
  if (headRepo === undefined || headTip === undefined)
    return invalid('PullRequest', { code: 'invalid', field: 'head' })
  if (!world.may(viewer, repo, 'push') && !world.may(viewer, headRepo, 'push'))
    return refused(403, 'Resource not accessible by personal access token')
  if (history.openFor(repo, headRepo, head, base) !== undefined)
    return invalid('PullRequest', {
      message: `A pull request already exists for ${headRepo.owner}:${head}.`,
    })
  if (headRepo === repo && (await isAncestor(repo.path, headTip, baseTip)))
    return invalid('PullRequest', { message: `No commits between ${base} and ${head}` })
  const issue = await history.open(repo, {
    headRepo,
    head,
    base,
    title,
    body: typeof body.body === 'string' ? body.body : null,
    author: viewer.person.login,
    draft: body.draft === true,
  })
  return created(await fullPullJson(call, history, issue, await history.mergeable(issue)))
}

/** `branch`, or `owner:branch` for a fork. */
function headOf({ body, world }: RestCall, repo: Repo): [Repo | undefined, string] {
  const [first = '', second] = String(body.head ?? '').split(':')
  if (second === undefined || first.toLowerCase() === repo.owner.toLowerCase()) return [repo, second ?? first]
  const forks = [...world.repos.values()].filter(({ forkOf }) => forkOf === repo)
  return [forks.find(({ owner }) => owner.toLowerCase() === first.toLowerCase()), second]
}

// ---- editing --------------------------------------------------------------------------------------------------------

async function editPull(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply> {
  const { body, world, viewer } = call
  const own = issue.author === viewer.person.login
  if (!own && !world.may(viewer, issue.repo, 'push'))
    return refused(403, 'Must have admin rights to Repository.')
  if (body.title === '') return invalid('PullRequest', { code: 'missing_field', field: 'title' })
  const base = typeof body.base === 'string' ? body.base : issue.pull.baseRef
  const baseTip = branchTip(issue.repo.path, base)
  if (baseTip === undefined) return invalid('PullRequest', { code: 'invalid', field: 'base' })
  const problem = await changeState(call, issue)
  if (problem !== undefined) return problem
  if (typeof body.title === 'string') issue.title = body.title
  if (typeof body.body === 'string') issue.body = body.body
  if (base !== issue.pull.baseRef) Object.assign(issue.pull, { baseRef: base, baseSha: baseTip })
  issue.updatedMs = world.now()
  return onePull(call, issue, await call.history.mergeable(issue))
}

async function changeState(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply | undefined> {
  const { state } = call.body
  if (state === undefined || state === issue.state) return undefined
  if (state !== 'open' && state !== 'closed')
    return invalid('PullRequest', { code: 'invalid', field: 'state' })
  if (state === 'closed') return void close(call, issue)
  const staysClosed = await call.history.staysClosed(issue)
  if (staysClosed !== undefined)
    return invalid('PullRequest', { code: 'custom', field: 'state', message: staysClosed })
  Object.assign(issue, { state: 'open', closedMs: null, closedBy: null })
  await call.history.settle(issue)
  return undefined
}

function close({ viewer, world }: AuthenticatedCall, issue: PullIssue): void {
  Object.assign(issue, { state: 'closed', closedMs: world.now(), closedBy: viewer.person.login })
}

// ---- merging --------------------------------------------------------------------------------------------------------

const METHOD_OFF: Readonly<Record<MergeMethod, string>> = {
  merge: 'Merge commits are not allowed on this repository.',
  squash: 'Squash merges are not allowed on this repository.',
  rebase: 'Rebase merges are not allowed on this repository.',
}

const METHODS = ['merge', 'squash', 'rebase'] as const

async function merge(call: AuthenticatedCall, issue: PullIssue): Promise<GithubReply> {
  const method = METHODS.find((known) => known === (call.body.merge_method ?? 'merge'))
  if (method === undefined) return invalid('PullRequest', { code: 'invalid', field: 'merge_method' })
  const refusal = await mergeRefusal(call, issue, method)
  if (refusal !== undefined) return refusal
  const { name, email, login } = call.viewer.person
  const sha = await mergedCommit(issue, {
    method,
    title: typeof call.body.commit_title === 'string' ? call.body.commit_title : undefined,
    message: typeof call.body.commit_message === 'string' ? call.body.commit_message : undefined,
    by: { name, email, atMs: call.world.now() },
  })
  if (sha === undefined) return refused(405, "This branch can't be rebased")
  const { pull, repo } = issue
  if (!(await moveBranch(repo.path, pull.baseRef, sha, pull.baseSha))) return baseModified()
  call.history.merged(issue, sha, login)
  repo.pushedMs = call.world.now()
  await afterMerge(call, issue)
  return ok({ sha, merged: true, message: `${PULL_REQUEST} successfully merged` })
}

/** Reports permanent reasons before temporary ones. */
async function mergeRefusal(
  call: AuthenticatedCall,
  issue: PullIssue,
  method: MergeMethod,
): Promise<GithubReply | undefined> {
  const { pull, repo } = issue
  if (issue.state === 'closed') return refused(405, `${PULL_REQUEST} is not mergeable`)
  if (!repo.allow[method]) return refused(405, METHOD_OFF[method])
  if (pull.draft) return refused(405, `${PULL_REQUEST} is still a draft`)
  if (call.body.sha !== undefined && call.body.sha !== pull.headSha)
    return refused(409, 'Head branch was modified. Review and try the merge again.')
  if (!(await call.history.mergesCleanly(issue))) return refused(405, `${PULL_REQUEST} has merge conflicts`)
  const missing = call.history.approvalsMissing(issue)
  if (missing > 0)
    return refused(405, `At least ${missing} approving review is required by reviewers with write access.`)
  if (repo.strict && !(await isAncestor(repo.path, pull.baseSha, pull.headSha)))
    return refused(405, 'Head branch is out of date. Review and try the merge again.')
  if (call.faults.baseModified === 0) return undefined
  call.faults.baseModified--
  return baseModified()
}

function baseModified(): GithubReply {
  return refused(405, 'Base branch was modified. Review and try the merge again.')
}

async function afterMerge(call: AuthenticatedCall, { pull, repo }: PullIssue): Promise<void> {
  const own = pull.headRepo === repo && pull.headRef !== repo.defaultBranch
  if (own && repo.deleteBranchOnMerge)
    await git(repo.path, ['update-ref', '-d', `refs/heads/${pull.headRef}`])
  await call.history.settleAll(repo)
}

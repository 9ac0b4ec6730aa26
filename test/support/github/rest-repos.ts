/** Routes of the account, repositories, branches, statuses and checks. */
import { checkJson, combinedStatusJson, refJson, statusJson } from './check-shapes.ts'
import { branchesOf, branchTip, fullSha, git } from './plumbing.ts'
import type { CheckRun, Repo, Status } from './records.ts'
import { fullNameOf } from './records.ts'
import {
  type AuthenticatedCall,
  created,
  type GithubReply,
  invalid,
  ofRepo,
  ok,
  paged,
  type RestCall,
  type RestHandler,
  refused,
} from './replies.ts'
import {
  fullRepoJson,
  labelJson,
  loginJson,
  milestoneJson,
  ownJson,
  repoJson,
  repoUrl,
} from './repo-shapes.ts'
import { isFineGrained } from './world.ts'

export const repoRoutes: Readonly<Record<string, RestHandler>> = {
  'GET /user': me,
  'GET /user/repos': myRepos,
  'GET /repos/{owner}/{repo}': ofRepo('pull', (call, repo) => ok(fullRepoJson(call, repo))),
  'GET /repos/{owner}/{repo}/branches': ofRepo('pull', branches),
  'GET /repos/{owner}/{repo}/git/ref/{ref}': ofRepo('pull', oneRef),
  'POST /repos/{owner}/{repo}/git/refs': ofRepo('push', createRef),
  'DELETE /repos/{owner}/{repo}/git/refs/{ref}': ofRepo('push', deleteRef),
  'GET /repos/{owner}/{repo}/commits/{ref}/check-runs': ofRepo('pull', checkRuns),
  'GET /repos/{owner}/{repo}/commits/{ref}/status': ofRepo('pull', combinedStatus),
  'POST /repos/{owner}/{repo}/statuses/{sha}': ofRepo('push', createStatus),
  'GET /repos/{owner}/{repo}/labels': ofRepo('pull', labels),
  'POST /repos/{owner}/{repo}/labels': ofRepo('push', createLabel),
  'GET /repos/{owner}/{repo}/milestones': ofRepo('pull', milestones),
}

function me(call: RestCall): GithubReply {
  if (call.viewer === undefined) return refused(401, 'Requires authentication')
  return ok(ownJson(call, call.viewer.person))
}

function myRepos(call: RestCall): GithubReply | Promise<GithubReply> {
  const { viewer, world } = call
  if (viewer === undefined) return refused(401, 'Requires authentication')
  const wanted = (call.query.get('affiliation') ?? 'owner,collaborator,organization_member').split(',')
  const mine = [...world.repos.values()].filter(
    (repo) =>
      world.roleOf(viewer.person.login, repo) !== undefined &&
      world.may(viewer, repo, 'pull') &&
      wanted.includes(
        repo.owner.toLowerCase() === viewer.person.login.toLowerCase() ? 'owner' : 'collaborator',
      ),
  )
  return paged(call, sortedRepos(call, mine), (repo) => repoJson(call, repo))
}

function sortedRepos({ query }: RestCall, repos: Repo[]): Repo[] {
  const sort = query.get('sort') ?? 'full_name'
  const instants = { created: 'createdMs', updated: 'updatedMs', pushed: 'pushedMs' } as const
  const down = (query.get('direction') ?? (sort === 'full_name' ? 'asc' : 'desc')) === 'desc' ? -1 : 1
  if (!(sort in instants))
    return repos.sort((a, b) => down * fullNameOf(a).localeCompare(fullNameOf(b), 'en'))
  // The check above ensures that this is a key.
  const key = instants[sort as keyof typeof instants]
  return repos.sort((a, b) => down * ((a[key] ?? 0) - (b[key] ?? 0)))
}

async function branches(call: RestCall, repo: Repo): Promise<GithubReply> {
  return paged(call, await branchesOf(repo.path), ({ name, sha }) => ({
    name,
    commit: { sha, url: `${repoUrl(call, repo)}/commits/${sha}` },
    protected: false,
  }))
}

// ---- refs -----------------------------------------------------------------------------------------------------------

function branchNamed(ref: string): string {
  return ref.replace(/^refs\//, '').replace(/^heads\//, '')
}

function oneRef(call: RestCall, repo: Repo): GithubReply {
  const branch = branchNamed(call.params.ref ?? '')
  const sha = /\.\.|^\//.test(branch) ? undefined : branchTip(repo.path, branch)
  if (sha === undefined) return refused(404, 'Not Found')
  return ok(refJson(call, repo, `refs/heads/${branch}`, sha))
}

async function createRef(call: AuthenticatedCall, repo: Repo): Promise<GithubReply> {
  const [ref, sha] = [String(call.body.ref), String(call.body.sha)]
  if (!ref.startsWith('refs/heads/')) return refused(422, "Reference name must start with 'refs/'")
  if (branchTip(repo.path, branchNamed(ref)) !== undefined) return refused(422, 'Reference already exists')
  if ((await fullSha(repo.path, sha)) === undefined) return refused(422, 'Object does not exist')
  await git(repo.path, ['update-ref', ref, sha])
  await call.history.settleAll(repo)
  return created(refJson(call, repo, ref, sha))
}

async function deleteRef(call: AuthenticatedCall, repo: Repo): Promise<GithubReply> {
  const branch = branchNamed(call.params.ref ?? '')
  if (branchTip(repo.path, branch) === undefined) return refused(422, 'Reference does not exist')
  await git(repo.path, ['update-ref', '-d', `refs/heads/${branch}`])
  await call.history.settleAll(repo)
  return { status: 204 }
}

// ---- statuses and checks --------------------------------------------------------------------------------------------

function noCommit({ params }: RestCall): GithubReply {
  return refused(422, `No commit found for SHA: ${params.ref ?? params.sha}`)
}

async function checkRuns(call: RestCall, repo: Repo): Promise<GithubReply> {
  const token = call.viewer?.token
  if (call.faults.checksForbidden || (token !== undefined && isFineGrained(token)))
    return refused(
      403,
      'Resource not accessible by personal access token',
      {},
      {
        'x-accepted-github-permissions': 'checks=read',
      },
    )
  const sha = await fullSha(repo.path, call.params.ref ?? '')
  if (sha === undefined) return noCommit(call)
  const runs = wantedChecks(
    call,
    repo.checks.filter((run) => run.sha === sha),
  )
  return paged(
    call,
    runs,
    (run) => checkJson(call, repo, run),
    (check_runs) => ({ total_count: runs.length, check_runs }),
  )
}

function wantedChecks({ query }: RestCall, runs: readonly CheckRun[]): CheckRun[] {
  const [name, status] = [query.get('check_name'), query.get('status')]
  const latest = new Map(runs.map((run) => [`${run.app} ${run.name}`, run]))
  const chosen = query.get('filter') === 'all' ? runs : [...latest.values()]
  return chosen.filter((run) => (name ?? run.name) === run.name && (status ?? run.status) === run.status)
}

async function combinedStatus(call: RestCall, repo: Repo): Promise<GithubReply> {
  const sha = await fullSha(repo.path, call.params.ref ?? '')
  if (sha === undefined) return noCommit(call)
  const mine = repo.statuses.filter((status) => status.sha === sha)
  const newest = [...new Map(mine.map((status) => [status.context, status])).values()]
  return paged(
    call,
    newest,
    (status) => statusJson(call, repo, status),
    (page) => combinedStatusJson(call, repo, sha, newest, page),
  )
}

const STATES = ['error', 'failure', 'pending', 'success'] as const

async function createStatus(call: AuthenticatedCall, repo: Repo): Promise<GithubReply> {
  const sha = await fullSha(repo.path, call.params.sha ?? '')
  if (sha === undefined) return noCommit(call)
  const state = STATES.find((known) => known === call.body.state)
  if (state === undefined)
    return invalid('Status', { field: 'state', code: 'custom', message: 'state is invalid' })
  const status: Status = {
    id: call.world.newId(),
    sha,
    state,
    context: String(call.body.context ?? 'default'),
    description: textOrNull(call.body.description),
    targetUrl: textOrNull(call.body.target_url),
    creator: call.viewer.person.login,
    atMs: call.world.now(),
  }
  repo.statuses.push(status)
  return created({ ...statusJson(call, repo, status), creator: loginJson(call, status.creator) })
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

// ---- labels and milestones ------------------------------------------------------------------------------------------

function labels(call: RestCall, repo: Repo): Promise<GithubReply> {
  return paged(call, [...repo.labels.values()], (label) => labelJson(call, repo, label))
}

function createLabel(call: AuthenticatedCall, repo: Repo): GithubReply {
  const name = String(call.body.name ?? '')
  if (name === '') return invalid('Label', { code: 'missing_field', field: 'name' })
  if (repo.labels.has(name.toLowerCase())) return invalid('Label', { code: 'already_exists', field: 'name' })
  const { color, description } = call.body
  const more = {
    ...(typeof color === 'string' ? { color } : {}),
    ...(typeof description === 'string' ? { description } : {}),
  }
  return created(labelJson(call, repo, call.world.label(repo, name, more)))
}

function milestones(call: RestCall, repo: Repo): Promise<GithubReply> {
  return paged(call, repo.milestones, (milestone) => milestoneJson(call, repo, milestone))
}

/** JSON of check runs, statuses and refs. */
import { type CheckRun, fullNameOf, type Repo, type Status } from './records.ts'
import {
  instant,
  type Json,
  type JsonContext,
  loginJson,
  maybeInstant,
  repoJson,
  repoPage,
  repoUrl,
} from './repo-shapes.ts'

export function checkJson(scene: JsonContext, repo: Repo, check: CheckRun): Json {
  const page = `${repoPage(scene, repo)}/runs/${check.id}`
  const url = `${repoUrl(scene, repo)}/check-runs/${check.id}`
  return {
    id: check.id,
    name: check.name,
    node_id: scene.world.nodeId('CR', check.id, check),
    head_sha: check.sha,
    external_id: '',
    url,
    html_url: page,
    details_url: page,
    status: check.status,
    conclusion: check.conclusion,
    started_at: instant(check.startedMs),
    completed_at: maybeInstant(check.completedMs),
    output: {
      title: check.title,
      summary: check.summary,
      text: null,
      annotations_count: 0,
      annotations_url: `${url}/annotations`,
    },
    check_suite: { id: check.id + 1 },
    app: appJson(scene, check),
    pull_requests: [],
  }
}

function appJson(scene: JsonContext, { app, startedMs }: CheckRun): Json {
  return {
    id: 15368,
    slug: app,
    node_id: `A_${app}`,
    owner: loginJson(scene, [...scene.world.people.values()][0]?.login ?? null),
    name: app,
    description: '',
    external_url: `${scene.web}/features/actions`,
    html_url: `${scene.web}/apps/${app}`,
    created_at: instant(startedMs),
    updated_at: instant(startedMs),
    permissions: { checks: 'write', metadata: 'read' },
    events: [],
  }
}

export function statusJson(scene: JsonContext, repo: Repo, status: Status): Json {
  return {
    url: `${repoUrl(scene, repo)}/statuses/${status.sha}`,
    avatar_url: null,
    id: status.id,
    node_id: scene.world.nodeId('SC', status.id, status),
    state: status.state,
    description: status.description,
    target_url: status.targetUrl,
    context: status.context,
    created_at: instant(status.atMs),
    updated_at: instant(status.atMs),
  }
}

export function combinedStatusJson(
  scene: JsonContext,
  repo: Repo,
  sha: string,
  newest: readonly Status[],
  page: Json[],
): Json {
  return {
    state: combined(newest),
    statuses: page,
    sha,
    total_count: newest.length,
    repository: repoJson(scene, repo),
    commit_url: `${repoUrl(scene, repo)}/commits/${sha}`,
    url: `${repoUrl(scene, repo)}/commits/${sha}/status`,
  }
}

/** GitHub's combined state is `pending` without any status. */
function combined(statuses: readonly Status[]): string {
  if (statuses.some(({ state }) => state === 'failure' || state === 'error')) return 'failure'
  const done = statuses.length > 0 && statuses.every(({ state }) => state === 'success')
  return done ? 'success' : 'pending'
}

export function refJson(scene: JsonContext, repo: Repo, ref: string, sha: string): Json {
  return {
    ref,
    node_id: `REF_${Buffer.from(`${fullNameOf(repo)}:${ref}`).toString('base64url')}`,
    url: `${repoUrl(scene, repo)}/git/${ref}`,
    object: { sha, type: 'commit', url: `${repoUrl(scene, repo)}/git/commits/${sha}` },
  }
}

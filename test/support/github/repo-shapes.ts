/** JSON of people, repositories, labels and milestones. */
import { fullNameOf, type GithubPerson, type Milestone, type Repo, type RepoLabel } from './records.ts'
import { type GithubViewer, type GithubWorld, isFineGrained } from './world.ts'

export type Json = Record<string, unknown>

/** Base addresses of links in replies. */
export interface GithubUrls {
  /** REST root without a trailing slash. */
  readonly api: string
  readonly web: string
}

/** Everything that JSON may depend on. */
export interface JsonContext extends GithubUrls {
  readonly world: GithubWorld
  readonly viewer: GithubViewer | undefined
}

/** Instant to the second, as on GitHub. */
export function instant(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

export function maybeInstant(ms: number | null): string | null {
  return ms === null ? null : instant(ms)
}

const PERSON_LINKS = {
  followers_url: '/followers',
  following_url: '/following{/other_user}',
  gists_url: '/gists{/gist_id}',
  starred_url: '/starred{/owner}{/repo}',
  subscriptions_url: '/subscriptions',
  organizations_url: '/orgs',
  repos_url: '/repos',
  events_url: '/events{/privacy}',
  received_events_url: '/received_events',
}

export function personJson({ world, api, web }: JsonContext, person: GithubPerson): Json {
  const url = `${api}/users/${person.login}`
  return {
    login: person.login,
    id: person.id,
    node_id: world.nodeId('U', person.id, person),
    avatar_url: `${web}/avatars/u/${person.id}?v=4`,
    gravatar_id: '',
    url,
    html_url: `${web}/${person.login}`,
    ...Object.fromEntries(Object.entries(PERSON_LINKS).map(([key, path]) => [key, url + path])),
    type: person.type,
    user_view_type: 'public',
    site_admin: false,
  }
}

/** Null when the account was deleted. */
export function loginJson(scene: JsonContext, login: string | null): Json | null {
  const person = scene.world.person(login)
  return person === undefined ? null : personJson(scene, person)
}

export function ownJson(scene: JsonContext, person: GithubPerson): Json {
  return {
    ...personJson(scene, person),
    user_view_type: 'private',
    name: person.name,
    company: null,
    blog: '',
    location: null,
    email: person.email,
    hireable: null,
    bio: null,
    twitter_username: null,
    notification_email: person.email,
    public_repos: 0,
    public_gists: 0,
    followers: 0,
    following: 0,
    created_at: instant(person.createdMs),
    updated_at: instant(person.createdMs),
    private_gists: 0,
    total_private_repos: 0,
    owned_private_repos: 0,
    disk_usage: 0,
    collaborators: 0,
    two_factor_authentication: true,
  }
}

const REPO_LINKS = {
  forks_url: '/forks',
  keys_url: '/keys{/key_id}',
  collaborators_url: '/collaborators{/collaborator}',
  teams_url: '/teams',
  hooks_url: '/hooks',
  issue_events_url: '/issues/events{/number}',
  events_url: '/events',
  assignees_url: '/assignees{/user}',
  branches_url: '/branches{/branch}',
  tags_url: '/tags',
  blobs_url: '/git/blobs{/sha}',
  git_tags_url: '/git/tags{/sha}',
  git_refs_url: '/git/refs{/sha}',
  trees_url: '/git/trees{/sha}',
  statuses_url: '/statuses/{sha}',
  languages_url: '/languages',
  stargazers_url: '/stargazers',
  contributors_url: '/contributors',
  subscribers_url: '/subscribers',
  subscription_url: '/subscription',
  commits_url: '/commits{/sha}',
  git_commits_url: '/git/commits{/sha}',
  comments_url: '/comments{/number}',
  issue_comment_url: '/issues/comments{/number}',
  contents_url: '/contents/{+path}',
  compare_url: '/compare/{base}...{head}',
  merges_url: '/merges',
  archive_url: '/{archive_format}{/ref}',
  downloads_url: '/downloads',
  issues_url: '/issues{/number}',
  pulls_url: '/pulls{/number}',
  milestones_url: '/milestones{/number}',
  notifications_url: '/notifications{?since,all,participating}',
  labels_url: '/labels{/name}',
  releases_url: '/releases{/id}',
  deployments_url: '/deployments',
}

export function repoUrl({ api }: GithubUrls, repo: Repo): string {
  return `${api}/repos/${fullNameOf(repo)}`
}

export function repoPage({ web }: GithubUrls, repo: Repo): string {
  return `${web}/${fullNameOf(repo)}`
}

/** Caches repository JSON per request, because a list of pull requests repeats it twice per item. */
const made = new WeakMap<JsonContext, Map<Repo, Json>>()

export function repoJson(scene: JsonContext, repo: Repo): Json {
  const known = made.get(scene) ?? new Map<Repo, Json>()
  made.set(scene, known)
  const json = known.get(repo) ?? newRepoJson(scene, repo)
  known.set(repo, json)
  return json
}

function newRepoJson(scene: JsonContext, repo: Repo): Json {
  const { world, web } = scene
  const [url, page] = [repoUrl(scene, repo), repoPage(scene, repo)]
  const owner = world.person(repo.owner)
  const open = [...repo.issues.values()].filter(({ state }) => state === 'open').length
  return {
    id: repo.id,
    node_id: world.nodeId('R', repo.id, repo),
    name: repo.name,
    full_name: fullNameOf(repo),
    private: repo.private,
    owner: owner === undefined ? null : personJson(scene, owner),
    html_url: page,
    description: repo.description,
    fork: repo.forkOf !== undefined,
    url,
    ...Object.fromEntries(Object.entries(REPO_LINKS).map(([key, path]) => [key, url + path])),
    created_at: instant(repo.createdMs),
    updated_at: instant(repo.updatedMs),
    pushed_at: maybeInstant(repo.pushedMs),
    git_url: `git://${web.replace(/^\w+:\/\//, '')}/${fullNameOf(repo)}.git`,
    ssh_url: `git@127.0.0.1:${fullNameOf(repo)}.git`,
    clone_url: `${page}.git`,
    svn_url: page,
    homepage: null,
    size: 1,
    stargazers_count: 0,
    watchers_count: 0,
    language: null,
    has_issues: repo.hasIssues,
    has_projects: true,
    has_downloads: true,
    has_wiki: true,
    has_pages: false,
    has_discussions: false,
    forks_count: 0,
    mirror_url: null,
    archived: repo.archived,
    disabled: false,
    open_issues_count: open,
    license: null,
    allow_forking: true,
    is_template: false,
    web_commit_signoff_required: false,
    topics: [],
    visibility: repo.private ? 'private' : 'public',
    forks: 0,
    open_issues: open,
    watchers: 0,
    default_branch: repo.defaultBranch,
    ...permissions(scene, repo),
  }
}

function permissions({ world, viewer }: JsonContext, repo: Repo): Json {
  if (viewer === undefined) return {}
  const role = world.roleOf(viewer.person.login, repo)
  const [admin, push] = [role === 'admin', role === 'admin' || role === 'push']
  return { permissions: { admin, maintain: admin, push, triage: push, pull: true } }
}

/** A single repository has more fields than one in a list. */
export function fullRepoJson(scene: JsonContext, repo: Repo): Json {
  const more = scene.world.may(scene.viewer, repo, 'push') ? mergeSettings(repo) : {}
  const parent = repo.forkOf === undefined ? {} : { parent: repoJson(scene, repo.forkOf) }
  return {
    ...repoJson(scene, repo),
    ...more,
    ...parent,
    temp_clone_token: '',
    network_count: 0,
    subscribers_count: 0,
  }
}

function mergeSettings(repo: Repo): Json {
  return {
    allow_squash_merge: repo.allow.squash,
    allow_merge_commit: repo.allow.merge,
    allow_rebase_merge: repo.allow.rebase,
    allow_auto_merge: false,
    delete_branch_on_merge: repo.deleteBranchOnMerge,
    allow_update_branch: false,
  }
}

export function labelJson(scene: JsonContext, repo: Repo, label: RepoLabel): Json {
  return {
    id: label.id,
    node_id: scene.world.nodeId('LA', label.id, label),
    url: `${repoUrl(scene, repo)}/labels/${encodeURIComponent(label.name)}`,
    name: label.name,
    color: label.color,
    default: ['bug', 'enhancement'].includes(label.name),
    description: label.description,
  }
}

export function milestoneJson(scene: JsonContext, repo: Repo, milestone: Milestone): Json {
  const url = `${repoUrl(scene, repo)}/milestones/${milestone.number}`
  return {
    url,
    html_url: `${repoPage(scene, repo)}/milestone/${milestone.number}`,
    labels_url: `${url}/labels`,
    id: milestone.id,
    node_id: scene.world.nodeId('MI', milestone.id, milestone),
    number: milestone.number,
    title: milestone.title,
    description: null,
    creator: loginJson(scene, repo.owner),
    open_issues: [...repo.issues.values()].filter(
      (issue) => issue.milestone === milestone && issue.state === 'open',
    ).length,
    closed_issues: 0,
    state: 'open',
    created_at: instant(milestone.createdMs),
    updated_at: instant(milestone.createdMs),
    due_on: null,
    closed_at: null,
  }
}

/** Association of a person with a repository. */
export function associationOf({ world }: JsonContext, repo: Repo, login: string | null): string {
  if (login?.toLowerCase() === repo.owner.toLowerCase()) return 'OWNER'
  return world.roleOf(login, repo) === undefined ? 'NONE' : 'COLLABORATOR'
}

/** Fine-grained tokens learn the missing permission; other tokens get 404. */
export function lacksPermission(viewer: GithubViewer | undefined): boolean {
  return viewer !== undefined && isFineGrained(viewer.token)
}

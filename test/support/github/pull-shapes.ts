/** JSON of issues, pull requests and their parts. */
import type { Commit, FileChange, Signed } from './diffs.ts'
import type { History } from './history.ts'
import type { Issue, PullIssue, Repo } from './records.ts'
import {
  associationOf,
  instant,
  type Json,
  type JsonContext,
  labelJson,
  loginJson,
  maybeInstant,
  milestoneJson,
  repoJson,
  repoPage,
  repoUrl,
} from './repo-shapes.ts'

export function issuePage(scene: JsonContext, issue: Issue): string {
  return `${repoPage(scene, issue.repo)}/${issue.pull === undefined ? 'issues' : 'pull'}/${issue.number}`
}

export function pullPage(scene: JsonContext, issue: Issue): string {
  return `${repoPage(scene, issue.repo)}/pull/${issue.number}`
}

function labelsJson(scene: JsonContext, { repo, labels }: Issue): Json[] {
  return labels.flatMap((name) => {
    const label = repo.labels.get(name.toLowerCase())
    return label === undefined ? [] : [labelJson(scene, repo, label)]
  })
}

function commonJson(scene: JsonContext, issue: Issue): Json {
  const assignees = issue.assignees
    .map((login) => loginJson(scene, login))
    .filter((person) => person !== null)
  return {
    number: issue.number,
    state: issue.state,
    locked: issue.locked,
    active_lock_reason: null,
    title: issue.title,
    body: issue.body,
    user: loginJson(scene, issue.author),
    labels: labelsJson(scene, issue),
    milestone: issue.milestone && milestoneJson(scene, issue.repo, issue.milestone),
    assignee: assignees[0] ?? null,
    assignees,
    created_at: instant(issue.createdMs),
    updated_at: instant(issue.updatedMs),
    closed_at: maybeInstant(issue.closedMs),
    author_association: associationOf(scene, issue.repo, issue.author),
  }
}

export function issueJson(scene: JsonContext, issue: Issue): Json {
  const repository_url = repoUrl(scene, issue.repo)
  const url = `${repository_url}/issues/${issue.number}`
  return {
    url,
    repository_url,
    labels_url: `${url}/labels{/name}`,
    comments_url: `${url}/comments`,
    events_url: `${url}/events`,
    html_url: issuePage(scene, issue),
    id: issue.id,
    node_id: nodeIdOf(scene, issue),
    ...commonJson(scene, issue),
    comments: issue.comments.length,
    state_reason: issue.stateReason,
    closed_by: loginJson(scene, issue.closedBy),
    timeline_url: `${url}/timeline`,
    issue_dependencies_summary: dependencies(issue),
    ...pullLinks(scene, issue),
  }
}

/** Counts blockers and blocked issues; the totals include closed ones. */
function dependencies(issue: Issue): Json {
  const blocking = [...issue.repo.issues.values()].filter(({ blockedBy }) => blockedBy.includes(issue))
  const open = (issues: readonly Issue[]): number => issues.filter(({ state }) => state === 'open').length
  return {
    blocked_by: open(issue.blockedBy),
    blocking: open(blocking),
    total_blocked_by: issue.blockedBy.length,
    total_blocking: blocking.length,
  }
}

/** Marks a pull request in a list of issues. */
function pullLinks(scene: JsonContext, issue: Issue): Json {
  if (issue.pull === undefined) return {}
  const page = pullPage(scene, issue)
  return {
    draft: issue.pull.draft,
    pull_request: {
      url: `${repoUrl(scene, issue.repo)}/pulls/${issue.number}`,
      html_url: page,
      diff_url: `${page}.diff`,
      patch_url: `${page}.patch`,
      merged_at: maybeInstant(issue.pull.mergedMs),
    },
  }
}

export function nodeIdOf({ world }: JsonContext, issue: Issue): string {
  return issue.pull === undefined
    ? world.nodeId('I', issue.id, issue)
    : world.nodeId('PR', issue.pull.id, issue)
}

export function pullJson(scene: JsonContext, issue: PullIssue): Json {
  const { pull, repo } = issue
  const [page, base] = [pullPage(scene, issue), repoUrl(scene, repo)]
  const [url, issueUrl] = [`${base}/pulls/${issue.number}`, `${base}/issues/${issue.number}`]
  return {
    url,
    id: pull.id,
    node_id: nodeIdOf(scene, issue),
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    issue_url: issueUrl,
    ...commonJson(scene, issue),
    merged_at: maybeInstant(pull.mergedMs),
    merge_commit_sha: pull.mergeSha,
    requested_reviewers: [],
    requested_teams: [],
    draft: pull.draft,
    commits_url: `${url}/commits`,
    review_comments_url: `${url}/comments`,
    review_comment_url: `${base}/pulls/comments{/number}`,
    comments_url: `${issueUrl}/comments`,
    statuses_url: `${base}/statuses/${pull.headSha}`,
    head: endJson(scene, {
      repo: pull.headRepo,
      owner: pull.headOwner,
      ref: pull.headRef,
      sha: pull.headSha,
    }),
    base: endJson(scene, { repo, owner: repo.owner, ref: pull.baseRef, sha: pull.baseSha }),
    _links: {
      self: { href: url },
      html: { href: page },
      issue: { href: issueUrl },
      comments: { href: `${issueUrl}/comments` },
      review_comments: { href: `${url}/comments` },
      review_comment: { href: `${base}/pulls/comments{/number}` },
      commits: { href: `${url}/commits` },
      statuses: { href: `${base}/statuses/${pull.headSha}` },
    },
    auto_merge: null,
  }
}

interface End {
  readonly repo: Repo | null
  readonly owner: string
  readonly ref: string
  readonly sha: string
}

function endJson(scene: JsonContext, { repo, owner, ref, sha }: End): Json {
  return {
    label: `${owner}:${ref}`,
    ref,
    sha,
    user: loginJson(scene, owner),
    repo: repo && repoJson(scene, repo),
  }
}

/** Fields that only a single pull request has, not a list. */
export async function fullPullJson(
  scene: JsonContext,
  history: History,
  issue: PullIssue,
  mergeable: boolean | null,
): Promise<Json> {
  const { pull } = issue
  const [files, commits] = await Promise.all([history.files(issue), history.commits(issue)])
  return {
    ...pullJson(scene, issue),
    merged: pull.mergedMs !== null,
    mergeable,
    rebaseable: mergeable,
    mergeable_state: await history.mergeState(issue, mergeable),
    merged_by: loginJson(scene, pull.mergedBy),
    comments: issue.comments.length,
    review_comments: pull.threads.reduce((sum, { comments }) => sum + comments.length, 0),
    maintainer_can_modify: pull.maintainerCanModify,
    commits: commits.length,
    additions: files.reduce((sum, file) => sum + file.additions, 0),
    deletions: files.reduce((sum, file) => sum + file.deletions, 0),
    changed_files: files.length,
  }
}

export function fileJson(scene: JsonContext, issue: PullIssue, file: FileChange): Json {
  const sha = issue.pull.headSha
  const page = repoPage(scene, issue.repo)
  const path = file.path.split('/').map(encodeURIComponent).join('/')
  return {
    sha: file.sha,
    filename: file.path,
    status: file.status,
    additions: file.additions,
    deletions: file.deletions,
    changes: file.additions + file.deletions,
    blob_url: `${page}/blob/${sha}/${path}`,
    raw_url: `${page}/raw/${sha}/${path}`,
    contents_url: `${repoUrl(scene, issue.repo)}/contents/${path}?ref=${sha}`,
    ...(file.patch === undefined ? {} : { patch: file.patch }),
    ...(file.previousPath === undefined ? {} : { previous_filename: file.previousPath }),
  }
}

export function commitJson(scene: JsonContext, repo: Repo, commit: Commit): Json {
  const url = `${repoUrl(scene, repo)}/commits/${commit.sha}`
  const page = repoPage(scene, repo)
  return {
    sha: commit.sha,
    node_id: scene.world.nodeId('C', repo.id, commit),
    commit: {
      author: commit.author,
      committer: commit.committer,
      message: commit.message,
      tree: { sha: commit.tree, url: `${repoUrl(scene, repo)}/git/trees/${commit.tree}` },
      url: `${repoUrl(scene, repo)}/git/commits/${commit.sha}`,
      comment_count: 0,
      verification: {
        verified: false,
        reason: 'unsigned',
        signature: null,
        payload: null,
        verified_at: null,
      },
    },
    url,
    html_url: `${page}/commit/${commit.sha}`,
    comments_url: `${url}/comments`,
    author: accountOf(scene, commit.author),
    committer: accountOf(scene, commit.committer),
    parents: commit.parents.map((sha) => ({
      sha,
      url: `${repoUrl(scene, repo)}/commits/${sha}`,
      html_url: `${page}/commit/${sha}`,
    })),
  }
}

/** Account of an e-mail address, or null. */
function accountOf(scene: JsonContext, { email }: Signed): Json | null {
  const person = [...scene.world.people.values()].find((candidate) => candidate.email === email)
  return person === undefined ? null : loginJson(scene, person.login)
}

/** Records of the fake GitHub beside its git repositories: people, tokens, repositories, issues and pull requests. */

export type Role = 'pull' | 'push' | 'admin'

export interface GithubPerson {
  readonly id: number
  readonly login: string
  readonly name: string
  readonly email: string
  readonly type: 'User' | 'Organization'
  readonly createdMs: number
}

export interface Token {
  readonly value: string
  readonly login: string
  readonly scopes: readonly string[]
  /** Repositories of a fine-grained token. */
  readonly repos?: readonly string[]
  /** A fine-grained token without write access. */
  readonly readOnly?: boolean
  readonly expiresAtMs?: number
}

export interface RepoLabel {
  readonly id: number
  readonly name: string
  readonly color: string
  readonly description: string
}

export interface Milestone {
  readonly id: number
  readonly number: number
  readonly title: string
  readonly createdMs: number
}

export interface Repo {
  readonly id: number
  owner: string
  name: string
  readonly path: string
  readonly private: boolean
  readonly description: string | null
  readonly defaultBranch: string
  readonly createdMs: number
  pushedMs: number | null
  updatedMs: number
  archived: boolean
  hasIssues: boolean
  readonly allow: { merge: boolean; squash: boolean; rebase: boolean }
  deleteBranchOnMerge: boolean
  /** Approvals required for a merge. */
  approvals: number
  /** A merge requires the newest commit of the base. */
  strict: boolean
  /** Message that refuses pushes, as for a protected branch. */
  rejectPushes: string | undefined
  readonly forkOf: Repo | undefined
  readonly members: Map<string, Role>
  readonly labels: Map<string, RepoLabel>
  readonly milestones: Milestone[]
  readonly issues: Map<number, Issue>
  readonly statuses: Status[]
  readonly checks: CheckRun[]
  nextNumber: number
}

export interface Comment {
  readonly id: number
  /** Null when the account was deleted. */
  readonly author: string | null
  body: string
  readonly createdMs: number
  updatedMs: number
}

export interface IssueEvent {
  readonly id: number
  readonly ms: number
  readonly by: string | null
  /** Absent: the title was changed. */
  readonly label?: string
}

export interface Issue {
  readonly id: number
  readonly number: number
  readonly repo: Repo
  title: string
  body: string | null
  readonly author: string | null
  state: 'open' | 'closed'
  stateReason: string | null
  labels: string[]
  assignees: string[]
  milestone: Milestone | null
  readonly createdMs: number
  updatedMs: number
  closedMs: number | null
  closedBy: string | null
  locked: boolean
  readonly comments: Comment[]
  readonly blockedBy: Issue[]
  /** Edits of the text, the first at the beginning. */
  readonly edits: { readonly by: string; readonly ms: number }[]
  readonly events: IssueEvent[]
  readonly pull: PullRecord | undefined
}

export interface PullRecord {
  readonly id: number
  /** Null when the fork was deleted. */
  headRepo: Repo | null
  readonly headOwner: string
  readonly headRef: string
  headSha: string
  baseRef: string
  baseSha: string
  draft: boolean
  mergedMs: number | null
  mergedBy: string | null
  mergeSha: string | null
  maintainerCanModify: boolean
  mergeability: Mergeability
  readonly reviews: Review[]
  readonly threads: Thread[]
}

/** The compared commits and the result; undefined while it is being computed. */
export interface Mergeability {
  readonly of: string
  asked: number
  value: boolean | undefined
}

export interface Review {
  readonly id: number
  readonly author: string | null
  readonly state: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED' | 'DISMISSED' | 'PENDING'
  readonly body: string
  readonly commitSha: string
  readonly submittedMs: number
}

export type DiffSide = 'LEFT' | 'RIGHT'

export interface Thread {
  readonly id: number
  readonly path: string
  /** Line in the commented commit; null for a comment on the whole file. */
  readonly line: number | null
  readonly startLine: number | null
  readonly side: DiffSide
  readonly commitSha: string
  readonly diffHunk: string
  resolvedBy: string | null
  /** Never empty. */
  readonly comments: [ReviewComment, ...ReviewComment[]]
}

export interface ReviewComment extends Comment {
  readonly reviewId: number
}

export interface Status {
  readonly id: number
  readonly sha: string
  readonly state: 'error' | 'failure' | 'pending' | 'success'
  readonly context: string
  readonly description: string | null
  readonly targetUrl: string | null
  readonly creator: string
  readonly atMs: number
}

export interface CheckRun {
  readonly id: number
  readonly sha: string
  readonly name: string
  readonly app: string
  readonly status: string
  readonly conclusion: string | null
  readonly title: string | null
  readonly summary: string | null
  readonly startedMs: number
  readonly completedMs: number | null
}

export function fullNameOf(repo: Repo): string {
  return `${repo.owner}/${repo.name}`
}

export function isPull(issue: Issue): issue is Issue & { readonly pull: PullRecord } {
  return issue.pull !== undefined
}

export type PullIssue = Issue & { readonly pull: PullRecord }

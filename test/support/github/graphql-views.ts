/** Resolves GraphQL fields into views of the records, computed on request. */
import { reviewCommentPage } from './comment-shapes.ts'
import { connection, type GithubPageArguments, type GraphqlView, typedError } from './graphql-connections.ts'
import type { History } from './history.ts'
import { pullPage } from './pull-shapes.ts'
import {
  fullNameOf,
  type GithubPerson,
  type Issue,
  type IssueEvent,
  isPull,
  type PullIssue,
  type Repo,
  type ReviewComment,
  type Thread,
} from './records.ts'
import { associationOf, instant, maybeInstant, repoPage } from './repo-shapes.ts'
import { type GithubViewer, type GithubWorld, isFineGrained } from './world.ts'

export interface GraphqlContext {
  readonly world: GithubWorld
  readonly history: History
  readonly down: ReadonlySet<string>
  readonly viewer: GithubViewer
  readonly api: string
  readonly web: string
  readonly rate: {
    readonly cost: number
    readonly limit: number
    readonly used: number
    readonly resetMs: number
  }
}

export type Maker = (args: never) => unknown

export function queryRoots(sight: GraphqlContext): Record<string, Maker> {
  return {
    viewer: () => personView(sight, sight.viewer.person),
    rateLimit: () => rateView(sight),
    repository: ({ owner, name }: { owner: string; name: string }) => repository(sight, `${owner}/${name}`),
    node: ({ id }: { id: string }) => node(sight, id),
    nodes: ({ ids }: { ids: string[] }) => Promise.all(ids.map((id) => node(sight, id))),
  }
}

function rateView({ rate }: GraphqlContext): GraphqlView {
  const { cost, limit, used, resetMs } = rate
  return { cost, limit, used, nodeCount: 0, remaining: Math.max(0, limit - used), resetAt: instant(resetMs) }
}

function repository(sight: GraphqlContext, fullName: string): GraphqlView {
  const { world, viewer } = sight
  const repo = world.repo(fullName) ?? world.renamed.get(fullName.toLowerCase())
  if (repo === undefined || !world.may(viewer, repo, 'pull'))
    throw typedError('NOT_FOUND', `Could not resolve to a Repository with the name '${fullName}'.`)
  return repoView(sight, repo)
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

type FoundNode =
  | { readonly is: 'PullRequest'; readonly issue: PullIssue }
  | { readonly is: 'PullRequestReviewThread'; readonly issue: PullIssue; readonly thread: Thread }
  | {
      readonly is: 'PullRequestReviewComment'
      readonly issue: PullIssue
      readonly thread: Thread
      readonly comment: ReviewComment
    }

async function node(sight: GraphqlContext, id: string): Promise<GraphqlView> {
  const record = sight.world.node(id)
  const repo = [...sight.world.repos.values()].find((candidate) => candidate === record)
  if (repo !== undefined && sight.world.may(sight.viewer, repo, 'pull')) return repoView(sight, repo)
  const person = [...sight.world.people.values()].find((candidate) => candidate === record)
  if (person !== undefined) return personView(sight, person)
  const found = find(sight, id)
  if (found.is === 'PullRequest') return pullView(sight, found.issue)
  if (found.is === 'PullRequestReviewThread') return threadView(sight, found.issue, found.thread)
  return commentView(sight, found.issue, found.thread, found.comment)
}

/** Finds a node in a repository that the viewer can see. */
export function find(sight: GraphqlContext, id: string): FoundNode {
  const record = sight.world.node(id)
  for (const issue of sight.world.everyIssue()) {
    const found = record !== undefined && isPull(issue) ? foundIn(issue, record) : undefined
    if (found !== undefined && sight.world.may(sight.viewer, issue.repo, 'pull')) return found
  }
  throw typedError('NOT_FOUND', `Could not resolve to a node with the global id of '${id}'`)
}

function foundIn(issue: PullIssue, record: object): FoundNode | undefined {
  if (record === issue) return { is: 'PullRequest', issue }
  for (const thread of issue.pull.threads) {
    if (record === thread) return { is: 'PullRequestReviewThread', issue, thread }
    const comment = thread.comments.find((candidate) => candidate === record)
    if (comment !== undefined) return { is: 'PullRequestReviewComment', issue, thread, comment }
  }
  return undefined
}

// ---- views ----------------------------------------------------------------------------------------------------------

function personView({ world, web }: GraphqlContext, person: GithubPerson): GraphqlView {
  return {
    __typename: 'User',
    id: world.nodeId('U', person.id, person),
    databaseId: person.id,
    login: person.login,
    name: person.name,
    email: person.email,
    url: `${web}/${person.login}`,
    resourcePath: `/${person.login}`,
  }
}

function loginView(sight: GraphqlContext, login: string | null): GraphqlView | null {
  const person = sight.world.person(login)
  return person === undefined ? null : personView(sight, person)
}

function repoView(sight: GraphqlContext, repo: Repo): GraphqlView {
  if (sight.down.has(fullNameOf(repo)))
    throw typedError('INTERNAL', 'Something went wrong while executing your query.')
  return {
    __typename: 'Repository',
    id: sight.world.nodeId('R', repo.id, repo),
    databaseId: repo.id,
    name: repo.name,
    nameWithOwner: fullNameOf(repo),
    owner: loginView(sight, repo.owner),
    isPrivate: repo.private,
    isArchived: repo.archived,
    description: repo.description,
    url: repoPage(sight, repo),
    issue: ({ number }: { number: number }) => issueByNumber(sight, repo, number),
    pullRequest: ({ number }: { number: number }) => pullByNumber(sight, repo, number),
    pullRequests: (args: PullsArguments) => pulls(sight, repo, args),
  }
}

function issueByNumber(sight: GraphqlContext, repo: Repo, number: number): GraphqlView {
  const issue = repo.issues.get(number)
  if (issue === undefined || isPull(issue))
    throw typedError('NOT_FOUND', `Could not resolve to an Issue with the number of ${number}.`)
  return {
    __typename: 'Issue',
    id: sight.world.nodeId('I', issue.id, issue),
    number: issue.number,
    title: issue.title,
    body: issue.body ?? '',
    author: loginView(sight, issue.author),
    authorAssociation: associationOf(sight, repo, issue.author),
    editor: loginView(sight, issue.edits.at(-1)?.by ?? null),
    lastEditedAt: maybeInstant(issue.edits.at(-1)?.ms ?? null),
    createdAt: instant(issue.createdMs),
    updatedAt: instant(issue.updatedMs),
    userContentEdits: (args: GithubPageArguments) =>
      connection('userContentEdits', editsOf(issue), args, async ({ by, ms }) => ({
        __typename: 'UserContentEdit',
        id: sight.world.nodeId('UCE', ms, issue),
        createdAt: instant(ms),
        editedAt: instant(ms),
        editor: loginView(sight, by),
      })),
    timelineItems: ({ itemTypes, ...args }: TimelineArguments) => {
      const wanted = issue.events.filter((event) => itemTypes?.includes(typeOf(event)) ?? true)
      return connection('timelineItems', wanted, args, async (event) => eventView(sight, event))
    },
  }
}

/** The newest first. The first edit also adds the words of before, at the instant of the issue. */
function editsOf({ author, createdMs, edits }: Issue): { by: string | null; ms: number }[] {
  return edits.length === 0 ? [] : [{ by: author, ms: createdMs }, ...edits].reverse()
}

interface TimelineArguments extends GithubPageArguments {
  readonly itemTypes?: readonly string[] | null
}

const typeOf = ({ label }: IssueEvent): string =>
  label === undefined ? 'RENAMED_TITLE_EVENT' : 'LABELED_EVENT'

function eventView(sight: GraphqlContext, event: IssueEvent): GraphqlView {
  const { id, ms, by, label } = event
  return {
    __typename: label === undefined ? 'RenamedTitleEvent' : 'LabeledEvent',
    id: sight.world.nodeId('LE', id, event),
    actor: loginView(sight, by),
    createdAt: instant(ms),
    ...(label === undefined ? {} : { label: { __typename: 'Label', id: label, name: label } }),
  }
}

function pullByNumber(sight: GraphqlContext, repo: Repo, number: number): Promise<GraphqlView> {
  const issue = repo.issues.get(number)
  if (issue === undefined || !isPull(issue))
    throw typedError('NOT_FOUND', `Could not resolve to a PullRequest with the number of ${number}.`)
  return pullView(sight, issue)
}

interface PullsArguments extends GithubPageArguments {
  readonly states?: readonly string[] | null
  readonly headRefName?: string | null
  readonly baseRefName?: string | null
  readonly orderBy?: {
    readonly field: 'COMMENTS' | 'CREATED_AT' | 'UPDATED_AT'
    readonly direction: 'ASC' | 'DESC'
  } | null
}

function pulls(sight: GraphqlContext, repo: Repo, args: PullsArguments): Promise<GraphqlView> {
  const wanted = [...repo.issues.values()]
    .filter(isPull)
    .filter(
      (issue) =>
        (args.states?.includes(stateOf(issue)) ?? true) &&
        (args.headRefName ?? issue.pull.headRef) === issue.pull.headRef &&
        (args.baseRefName ?? issue.pull.baseRef) === issue.pull.baseRef,
    )
  const { orderBy } = args
  if (orderBy != null)
    wanted.sort((a, b) => (rankOf(a, orderBy) - rankOf(b, orderBy)) * (orderBy.direction === 'ASC' ? 1 : -1))
  return connection('pullRequests', wanted, args, (issue) => pullView(sight, issue))
}

function rankOf(issue: PullIssue, { field }: NonNullable<PullsArguments['orderBy']>): number {
  if (field === 'COMMENTS') return issue.comments.length
  return field === 'CREATED_AT' ? issue.createdMs : issue.updatedMs
}

/** Only the newest commit has checks in the fake's pull requests. */
function rollupView(sight: GraphqlContext, { repo, pull }: PullIssue): GraphqlView | null {
  if (isFineGrained(sight.viewer.token))
    throw typedError('FORBIDDEN', 'Resource not accessible by personal access token')
  const newest = <T>(all: readonly (T & { readonly sha: string })[], nameOf: (each: T) => string) => [
    ...new Map(all.filter(({ sha }) => sha === pull.headSha).map((each) => [nameOf(each), each])).values(),
  ]
  const states = [
    ...newest(repo.checks, ({ name }) => name).map(({ status, conclusion }) =>
      status === 'completed' ? (conclusion ?? '') : 'pending',
    ),
    ...newest(repo.statuses, ({ context }) => context).map(({ state }) => state),
  ]
  if (states.length === 0) return null
  const fine = ['success', 'neutral', 'skipped', 'pending']
  if (states.some((state) => !fine.includes(state))) return { state: 'FAILURE' }
  return { state: states.includes('pending') ? 'PENDING' : 'SUCCESS' }
}

function stateOf({ state, pull }: PullIssue): string {
  if (pull.mergedMs !== null) return 'MERGED'
  return state === 'open' ? 'OPEN' : 'CLOSED'
}

export async function pullView(sight: GraphqlContext, issue: PullIssue): Promise<GraphqlView> {
  await sight.history.settle(issue)
  const { pull, repo } = issue
  const { history } = sight
  // Computed once per view, even when several fields need it.
  let asked: Promise<boolean | null> | undefined
  const mergeable = (): Promise<boolean | null> => (asked ??= history.mergeable(issue))
  const total = async (of: 'additions' | 'deletions'): Promise<number> =>
    (await history.files(issue)).reduce((sum, file) => sum + file[of], 0)
  return {
    __typename: 'PullRequest',
    id: sight.world.nodeId('PR', pull.id, issue),
    fullDatabaseId: String(pull.id),
    number: issue.number,
    title: issue.title,
    body: issue.body ?? '',
    url: pullPage(sight, issue),
    state: stateOf(issue),
    isDraft: pull.draft,
    merged: pull.mergedMs !== null,
    closed: issue.state === 'closed',
    mergeable: async () => mergeableWord(await mergeable()),
    mergeStateStatus: async () => (await history.mergeState(issue, await mergeable())).toUpperCase(),
    reviewDecision: decisionOf(history, issue),
    author: loginView(sight, issue.author),
    headRefOid: pull.headSha,
    headRefName: pull.headRef,
    headRepository: () => pull.headRepo && repoView(sight, pull.headRepo),
    baseRefOid: pull.baseSha,
    baseRefName: pull.baseRef,
    baseRepository: () => repoView(sight, repo),
    repository: () => repoView(sight, repo),
    createdAt: instant(issue.createdMs),
    updatedAt: instant(issue.updatedMs),
    closedAt: maybeInstant(issue.closedMs),
    mergedAt: maybeInstant(pull.mergedMs),
    additions: () => total('additions'),
    deletions: () => total('deletions'),
    changedFiles: async () => (await history.files(issue)).length,
    totalCommentsCount: () =>
      issue.comments.length + pull.threads.reduce((sum, { comments }) => sum + comments.length, 0),
    commits: async (args: GithubPageArguments) =>
      connection('commits', await history.commits(issue), args, async ({ sha }) => ({
        commit: {
          oid: sha,
          statusCheckRollup: () => (sha === pull.headSha ? rollupView(sight, issue) : null),
        },
      })),
    reviewThreads: (args: GithubPageArguments) =>
      connection('reviewThreads', pull.threads, args, (thread) => threadView(sight, issue, thread)),
  }
}

function mergeableWord(mergeable: boolean | null): string {
  if (mergeable === null) return 'UNKNOWN'
  return mergeable ? 'MERGEABLE' : 'CONFLICTING'
}

function decisionOf(history: History, issue: PullIssue): string | null {
  const newest = new Map(issue.pull.reviews.map((review) => [review.author, review.state]))
  if ([...newest.values()].includes('CHANGES_REQUESTED')) return 'CHANGES_REQUESTED'
  if (issue.repo.approvals === 0) return null
  return history.approvalsMissing(issue) > 0 ? 'REVIEW_REQUIRED' : 'APPROVED'
}

export async function threadView(
  sight: GraphqlContext,
  issue: PullIssue,
  thread: Thread,
): Promise<GraphqlView> {
  const line = await sight.history.lineOf(issue, thread)
  const resolved = thread.resolvedBy !== null
  const outdated = thread.line !== null && line === undefined
  const mayResolve =
    sight.world.may(sight.viewer, issue.repo, 'push') || issue.author === sight.viewer.person.login
  return {
    __typename: 'PullRequestReviewThread',
    id: sight.world.nodeId('PRRT', thread.id, thread),
    comments: (args: GithubPageArguments) =>
      connection('comments', thread.comments, args, (comment) => commentView(sight, issue, thread, comment)),
    diffSide: thread.side,
    isCollapsed: resolved || outdated,
    isOutdated: outdated,
    isResolved: resolved,
    line: line ?? null,
    originalLine: thread.line,
    originalStartLine: thread.startLine,
    path: thread.path,
    pullRequest: () => pullView(sight, issue),
    repository: () => repoView(sight, issue.repo),
    resolvedBy: loginView(sight, thread.resolvedBy),
    startDiffSide: thread.startLine === null ? null : thread.side,
    startLine: line === undefined ? null : thread.startLine,
    subjectType: subjectOf(thread),
    viewerCanReply: !issue.locked,
    viewerCanResolve: mayResolve && !resolved,
    viewerCanUnresolve: mayResolve && resolved,
  }
}

function subjectOf({ line }: Thread): string {
  return line === null ? 'FILE' : 'LINE'
}

export async function commentView(
  sight: GraphqlContext,
  issue: PullIssue,
  thread: Thread,
  comment: ReviewComment,
): Promise<GraphqlView> {
  const line = await sight.history.lineOf(issue, thread)
  const [first] = thread.comments
  return {
    __typename: 'PullRequestReviewComment',
    id: sight.world.nodeId('PRRC', comment.id, comment),
    author: loginView(sight, comment.author),
    authorAssociation: associationOf(sight, issue.repo, comment.author),
    body: comment.body,
    createdAt: instant(comment.createdMs),
    databaseId: comment.id,
    diffHunk: thread.diffHunk,
    fullDatabaseId: String(comment.id),
    line: line ?? null,
    originalLine: thread.line,
    originalStartLine: thread.startLine,
    outdated: thread.line !== null && line === undefined,
    path: thread.path,
    pullRequest: () => pullView(sight, issue),
    replyTo: () => (comment === first ? null : commentView(sight, issue, thread, first)),
    repository: () => repoView(sight, issue.repo),
    startLine: line === undefined ? null : thread.startLine,
    subjectType: subjectOf(thread),
    updatedAt: instant(comment.updatedMs),
    url: reviewCommentPage(sight, issue, comment),
  }
}

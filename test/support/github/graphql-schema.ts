/** The part of GitHub's public GraphQL schema that the fake serves. Validation refuses everything else. */
export const GITHUB_SCHEMA = `
scalar BigInt
scalar DateTime
scalar GitObjectID
scalar URI

interface Node { id: ID! }
interface Actor { login: String! url: URI! resourcePath: URI! }
interface RepositoryOwner { id: ID! login: String! url: URI! resourcePath: URI! }

type Query {
  node(id: ID!): Node
  nodes(ids: [ID!]!): [Node]!
  rateLimit(dryRun: Boolean = false): RateLimit
  repository(followRenames: Boolean = true, name: String!, owner: String!): Repository
  viewer: User!
}

type Mutation {
  addPullRequestReviewThreadReply(input: AddPullRequestReviewThreadReplyInput!): AddPullRequestReviewThreadReplyPayload
  closePullRequest(input: ClosePullRequestInput!): ClosePullRequestPayload
  convertPullRequestToDraft(input: ConvertPullRequestToDraftInput!): ConvertPullRequestToDraftPayload
  markPullRequestReadyForReview(input: MarkPullRequestReadyForReviewInput!): MarkPullRequestReadyForReviewPayload
  resolveReviewThread(input: ResolveReviewThreadInput!): ResolveReviewThreadPayload
  unresolveReviewThread(input: UnresolveReviewThreadInput!): UnresolveReviewThreadPayload
}

type RateLimit {
  cost: Int!
  limit: Int!
  nodeCount: Int!
  remaining: Int!
  resetAt: DateTime!
  used: Int!
}

type User implements Actor & Node & RepositoryOwner {
  id: ID!
  databaseId: Int
  login: String!
  name: String
  email: String!
  url: URI!
  resourcePath: URI!
}

type Repository implements Node {
  id: ID!
  databaseId: Int
  name: String!
  nameWithOwner: String!
  owner: RepositoryOwner!
  isPrivate: Boolean!
  isArchived: Boolean!
  description: String
  url: URI!
  issue(number: Int!): Issue
  pullRequest(number: Int!): PullRequest
  pullRequests(
    after: String
    before: String
    first: Int
    last: Int
    states: [PullRequestState!]
    headRefName: String
    baseRefName: String
    orderBy: IssueOrder
  ): PullRequestConnection!
}

enum IssueOrderField { COMMENTS CREATED_AT UPDATED_AT }
enum OrderDirection { ASC DESC }
input IssueOrder { direction: OrderDirection! field: IssueOrderField! }

enum StatusState { ERROR EXPECTED FAILURE PENDING SUCCESS }
type StatusCheckRollup { state: StatusState! }
type Commit { oid: GitObjectID! statusCheckRollup: StatusCheckRollup }
type PullRequestCommit { commit: Commit! }
type PullRequestCommitConnection { nodes: [PullRequestCommit] totalCount: Int! }

enum IssueTimelineItemsItemType { LABELED_EVENT RENAMED_TITLE_EVENT }
union IssueTimelineItems = LabeledEvent | RenamedTitleEvent
type Label implements Node { id: ID! name: String! }
type LabeledEvent implements Node { id: ID! actor: Actor createdAt: DateTime! label: Label! }
type RenamedTitleEvent implements Node { id: ID! actor: Actor createdAt: DateTime! }
type IssueTimelineItemsConnection {
  edges: [IssueTimelineItemsEdge]
  nodes: [IssueTimelineItems]
  pageInfo: PageInfo!
  totalCount: Int!
}
type IssueTimelineItemsEdge { cursor: String! node: IssueTimelineItems }

type UserContentEdit implements Node {
  id: ID!
  createdAt: DateTime!
  editedAt: DateTime!
  editor: Actor
}
type UserContentEditConnection {
  edges: [UserContentEditEdge]
  nodes: [UserContentEdit]
  pageInfo: PageInfo!
  totalCount: Int!
}
type UserContentEditEdge { cursor: String! node: UserContentEdit }

type Issue implements Node {
  id: ID!
  number: Int!
  title: String!
  body: String!
  author: Actor
  authorAssociation: CommentAuthorAssociation!
  editor: Actor
  lastEditedAt: DateTime
  createdAt: DateTime!
  updatedAt: DateTime!
  userContentEdits(after: String, before: String, first: Int, last: Int): UserContentEditConnection
  timelineItems(
    after: String
    before: String
    first: Int
    last: Int
    itemTypes: [IssueTimelineItemsItemType!]
  ): IssueTimelineItemsConnection!
}

enum PullRequestState { CLOSED MERGED OPEN }
enum MergeableState { CONFLICTING MERGEABLE UNKNOWN }
enum MergeStateStatus { BEHIND BLOCKED CLEAN DIRTY DRAFT HAS_HOOKS UNKNOWN UNSTABLE }
enum PullRequestReviewDecision { APPROVED CHANGES_REQUESTED REVIEW_REQUIRED }
enum DiffSide { LEFT RIGHT }
enum PullRequestReviewThreadSubjectType { FILE LINE }

type PullRequest implements Node {
  id: ID!
  fullDatabaseId: BigInt
  number: Int!
  title: String!
  body: String!
  url: URI!
  state: PullRequestState!
  isDraft: Boolean!
  merged: Boolean!
  closed: Boolean!
  mergeable: MergeableState!
  mergeStateStatus: MergeStateStatus!
  reviewDecision: PullRequestReviewDecision
  author: Actor
  headRefOid: GitObjectID!
  headRefName: String!
  headRepository: Repository
  baseRefOid: GitObjectID!
  baseRefName: String!
  baseRepository: Repository
  repository: Repository!
  createdAt: DateTime!
  updatedAt: DateTime!
  closedAt: DateTime
  mergedAt: DateTime
  additions: Int!
  deletions: Int!
  changedFiles: Int!
  totalCommentsCount: Int
  commits(after: String, before: String, first: Int, last: Int): PullRequestCommitConnection!
  reviewThreads(after: String, before: String, first: Int, last: Int): PullRequestReviewThreadConnection!
}

type PageInfo {
  endCursor: String
  hasNextPage: Boolean!
  hasPreviousPage: Boolean!
  startCursor: String
}

type PullRequestConnection {
  edges: [PullRequestEdge]
  nodes: [PullRequest]
  pageInfo: PageInfo!
  totalCount: Int!
}
type PullRequestEdge { cursor: String! node: PullRequest }

type PullRequestReviewThreadConnection {
  edges: [PullRequestReviewThreadEdge]
  nodes: [PullRequestReviewThread]
  pageInfo: PageInfo!
  totalCount: Int!
}
type PullRequestReviewThreadEdge { cursor: String! node: PullRequestReviewThread }

type PullRequestReviewThread implements Node {
  id: ID!
  comments(after: String, before: String, first: Int, last: Int, skip: Int): PullRequestReviewCommentConnection!
  diffSide: DiffSide!
  isCollapsed: Boolean!
  isOutdated: Boolean!
  isResolved: Boolean!
  line: Int
  originalLine: Int
  originalStartLine: Int
  path: String!
  pullRequest: PullRequest!
  repository: Repository!
  resolvedBy: User
  startDiffSide: DiffSide
  startLine: Int
  subjectType: PullRequestReviewThreadSubjectType!
  viewerCanReply: Boolean!
  viewerCanResolve: Boolean!
  viewerCanUnresolve: Boolean!
}

type PullRequestReviewCommentConnection {
  edges: [PullRequestReviewCommentEdge]
  nodes: [PullRequestReviewComment]
  pageInfo: PageInfo!
  totalCount: Int!
}
type PullRequestReviewCommentEdge { cursor: String! node: PullRequestReviewComment }

enum CommentAuthorAssociation { COLLABORATOR CONTRIBUTOR FIRST_TIMER FIRST_TIME_CONTRIBUTOR MANNEQUIN MEMBER NONE OWNER }

type PullRequestReviewComment implements Node {
  id: ID!
  author: Actor
  authorAssociation: CommentAuthorAssociation!
  body: String!
  createdAt: DateTime!
  databaseId: Int
  diffHunk: String!
  fullDatabaseId: BigInt
  line: Int
  originalLine: Int
  originalStartLine: Int
  outdated: Boolean!
  path: String!
  pullRequest: PullRequest!
  replyTo: PullRequestReviewComment
  repository: Repository!
  startLine: Int
  subjectType: PullRequestReviewThreadSubjectType!
  updatedAt: DateTime!
  url: URI!
}

input AddPullRequestReviewThreadReplyInput {
  body: String!
  clientMutationId: String
  pullRequestReviewId: ID
  pullRequestReviewThreadId: ID!
}
type AddPullRequestReviewThreadReplyPayload { clientMutationId: String comment: PullRequestReviewComment }
input ClosePullRequestInput { clientMutationId: String pullRequestId: ID! }
type ClosePullRequestPayload { clientMutationId: String pullRequest: PullRequest }
input ConvertPullRequestToDraftInput { clientMutationId: String pullRequestId: ID! }
type ConvertPullRequestToDraftPayload { clientMutationId: String pullRequest: PullRequest }
input MarkPullRequestReadyForReviewInput { clientMutationId: String pullRequestId: ID! }
type MarkPullRequestReadyForReviewPayload { clientMutationId: String pullRequest: PullRequest }
input ResolveReviewThreadInput { clientMutationId: String threadId: ID! }
type ResolveReviewThreadPayload { clientMutationId: String thread: PullRequestReviewThread }
input UnresolveReviewThreadInput { clientMutationId: String threadId: ID! }
type UnresolveReviewThreadPayload { clientMutationId: String thread: PullRequestReviewThread }
`

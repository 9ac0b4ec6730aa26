/**
 * Repositories and pull requests as the code host reports them, in one vocabulary for every code host.
 *
 * Comment and thread ids are opaque: only the driver that made one can resolve it again.
 */
import Type, { type Static } from 'typebox'
import {
  CHECK_REPORT_CHARS_MAX,
  FOLLOW_UP_ITEMS_MAX,
  NAME_CHARS_MAX,
  PATCH_CHARS_MAX,
  PATH_CHARS_MAX,
  PROSE_CHARS_MAX,
  REVIEW_COMMENTS_MAX,
} from './limits.ts'
import { PullState } from './run.ts'
import {
  addedKey,
  boundedList,
  Count,
  ForeignId,
  Id,
  Instant,
  Link,
  Name,
  nonEmptyText,
  record,
  stringEnum,
  Text,
  text,
} from './schema-helpers.ts'

const Prose = text(PROSE_CHARS_MAX)
const AuthorMayWrite = addedKey(
  Type.Boolean({
    description: 'Whether the author may write to the repository. Absent: the code host has no strangers.',
  }),
)

export const CodehostRepo = record('CodehostRepo', {
  fullName: Name,
  defaultBranch: Name,
  private: Type.Boolean(),
  description: Text,
  pushedAt: Instant,
})
export type CodehostRepo = Static<typeof CodehostRepo>

const PullRun = record('PullRun', { id: Id, ticket: Name })

const summary = {
  repo: nonEmptyText(256, 'The key of the repository mapping.'),
  remote: Name,
  number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  url: Link,
  title: Text,
  state: PullState,
  author: Name,
  baseBranch: Name,
  headBranch: Name,
  createdAt: Instant,
  updatedAt: Instant,
  mergedAt: Type.Optional(Instant),
  run: addedKey({
    ...PullRun,
    description: 'The newest run that worked on it, and the identifier of its ticket, among the newest runs.',
  }),
}

export const CHECKS_STATES = ['passed', 'failed', 'running', 'none'] as const

/** A list has these where the code host tells them for all at once. An absent key is not known. */
export const PullSummary = record('PullSummary', {
  ...summary,
  additions: addedKey(Count),
  deletions: addedKey(Count),
  changedFiles: addedKey(Count),
  commentCount: addedKey(Count),
  checksState: addedKey(
    stringEnum(CHECKS_STATES, 'All checks of the newest commit together; none: it has no checks.'),
  ),
})
export type PullSummary = Static<typeof PullSummary>

export const PullComment = record('PullComment', {
  id: ForeignId,
  author: Name,
  authorMayWrite: AuthorMayWrite,
  body: Prose,
  createdAt: Instant,
  url: Link,
})
export type PullComment = Static<typeof PullComment>

export const PullReview = record('PullReview', {
  id: ForeignId,
  author: Name,
  authorMayWrite: AuthorMayWrite,
  state: Name,
  body: Prose,
  submittedAt: Instant,
})
export type PullReview = Static<typeof PullReview>

export const PullThread = record('PullThread', {
  id: ForeignId,
  resolved: Type.Boolean(),
  path: text(PATH_CHARS_MAX),
  line: Type.Optional(Count),
  diffHunk: Prose,
  comments: boundedList(PullComment, FOLLOW_UP_ITEMS_MAX),
})
export type PullThread = Static<typeof PullThread>

export const PullFile = record('PullFile', {
  path: text(PATH_CHARS_MAX),
  previousPath: Type.Optional(text(PATH_CHARS_MAX)),
  status: Name,
  additions: Count,
  deletions: Count,
  patch: Type.Optional(text(PATCH_CHARS_MAX)),
})
export type PullFile = Static<typeof PullFile>

export const PullCommit = record('PullCommit', {
  sha: Name,
  message: Prose,
  author: Name,
  committedAt: Instant,
})
export type PullCommit = Static<typeof PullCommit>

export const PullCheck = record('PullCheck', {
  name: Name,
  status: stringEnum(['queued', 'in_progress', 'completed']),
  conclusion: Type.Optional(Name),
  url: Type.Optional(Link),
  source: stringEnum(['check-run', 'status']),
  report: Type.Optional(
    text(CHECK_REPORT_CHARS_MAX, 'The end of what a failed check reported, where the code host tells it.'),
  ),
})
export type PullCheck = Static<typeof PullCheck>

export const PullConversation = record('PullConversation', {
  comments: Type.Array(PullComment),
  reviews: Type.Array(PullReview),
  threads: Type.Array(PullThread),
})
export type PullConversation = Static<typeof PullConversation>

export const MERGE_METHODS = ['merge', 'squash', 'rebase'] as const
export const MergeMethod = stringEnum(MERGE_METHODS)
export type MergeMethod = Static<typeof MergeMethod>

export const PullDetail = record('PullDetail', {
  ...summary,
  body: Prose,
  draft: Type.Boolean(),
  headSha: Name,
  mergeableState: Type.Optional(Name),
  mergeMethods: Type.Optional(
    Type.Array(MergeMethod, {
      description: 'Those that the repository allows, where the code host tells it.',
    }),
  ),
  additions: Count,
  deletions: Count,
  changedFiles: Count,
  conversation: PullConversation,
  files: Type.Array(PullFile),
  commits: Type.Array(PullCommit),
  checks: Type.Array(PullCheck),
  checksLookupFailed: Type.Optional(Type.Boolean({ description: 'Some checks could not be read.' })),
})
export type PullDetail = Static<typeof PullDetail>

/** A pull request file of the local code host. In a hand-written file only the first five fields are required. */
export const KeptPull = record('KeptPull', {
  number: summary.number,
  title: Text,
  state: PullState,
  baseBranch: nonEmptyText(NAME_CHARS_MAX),
  headBranch: nonEmptyText(NAME_CHARS_MAX),
  body: Type.Optional(Prose),
  author: Type.Optional(Name),
  draft: Type.Optional(Type.Boolean()),
  createdAt: Type.Optional(Instant),
  updatedAt: Type.Optional(Instant),
  mergedAt: Type.Optional(Instant),
  comments: Type.Optional(boundedList(PullComment, FOLLOW_UP_ITEMS_MAX)),
  reviews: Type.Optional(boundedList(PullReview, FOLLOW_UP_ITEMS_MAX)),
  threads: Type.Optional(boundedList(PullThread, FOLLOW_UP_ITEMS_MAX)),
})
export type KeptPull = Static<typeof KeptPull>

export const PullListError = record('PullListError', { repo: Name, remote: Name, message: Text })

export const PullListResponse = record('PullListResponse', {
  pulls: Type.Array(PullSummary),
  errors: Type.Array(PullListError),
})
export type PullListResponse = Static<typeof PullListResponse>

export const RunPullResponse = record('RunPullResponse', {
  url: Link,
  number: summary.number,
  state: PullState,
})
export type RunPullResponse = Static<typeof RunPullResponse>

// ---- actions of a person ---------------------------------------------------------------------------------------

export const MergeRequest = record('MergeRequest', {
  method: MergeMethod,
  headSha: Type.Optional(
    nonEmptyText(256, 'The last commit that was seen; refused when the branch has another.'),
  ),
})
export type MergeRequest = Static<typeof MergeRequest>

export const MergeResponse = record('MergeResponse', { merged: Type.Literal(true), message: Text })
export type MergeResponse = Static<typeof MergeResponse>

export const CommentRequest = record('CommentRequest', { body: nonEmptyText(PROSE_CHARS_MAX) })
export type CommentRequest = Static<typeof CommentRequest>

/** A comment on one line of the diff. Unchanged lines stand on both sides. */
export const ReviewLineComment = record('ReviewLineComment', {
  path: nonEmptyText(PATH_CHARS_MAX),
  line: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  side: stringEnum(['LEFT', 'RIGHT'], 'LEFT is the file before the pull request, RIGHT the file with it.'),
  body: nonEmptyText(PROSE_CHARS_MAX),
})
export type ReviewLineComment = Static<typeof ReviewLineComment>

/** An approval needs no text; the code host decides what other reviews need. */
export const ReviewRequest = record('ReviewRequest', {
  event: stringEnum(['APPROVE', 'REQUEST_CHANGES', 'COMMENT']),
  body: Prose,
  comments: Type.Optional(boundedList(ReviewLineComment, REVIEW_COMMENTS_MAX)),
})
export type ReviewRequest = Static<typeof ReviewRequest>

export const ReplyRequest = record('ReplyRequest', {
  commentId: ForeignId,
  body: nonEmptyText(PROSE_CHARS_MAX),
})
export type ReplyRequest = Static<typeof ReplyRequest>

export const ResolveThreadRequest = record('ResolveThreadRequest', {
  threadId: ForeignId,
  resolved: Type.Boolean(),
})
export type ResolveThreadRequest = Static<typeof ResolveThreadRequest>

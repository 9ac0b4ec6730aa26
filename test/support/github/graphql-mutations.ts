/** GraphQL mutations: resolve and answer threads, mark drafts ready, close pull requests. */
import type { GraphQLError } from 'graphql'
import { type GraphqlView, typedError } from './graphql-connections.ts'
import { commentView, find, type GraphqlContext, type Maker, pullView, threadView } from './graphql-views.ts'
import type { PullIssue, Thread } from './records.ts'
import { setState } from './rest-issues.ts'
import { addReply } from './rest-reviews.ts'

interface Input<T> {
  readonly input: T & { readonly clientMutationId?: string | null }
}

export function mutationRoots(sight: GraphqlContext): Record<string, Maker> {
  return {
    resolveReviewThread: ({ input }: Input<{ threadId: string }>) => setResolved(sight, input, true),
    unresolveReviewThread: ({ input }: Input<{ threadId: string }>) => setResolved(sight, input, false),
    markPullRequestReadyForReview: ({ input }: Input<{ pullRequestId: string }>) =>
      setDraft(sight, input, false),
    convertPullRequestToDraft: ({ input }: Input<{ pullRequestId: string }>) => setDraft(sight, input, true),
    closePullRequest: ({ input }: Input<{ pullRequestId: string }>) => closePull(sight, input),
    addPullRequestReviewThreadReply: ({
      input,
    }: Input<{ pullRequestReviewThreadId: string; body: string }>) => reply(sight, input),
  }
}

async function setResolved(
  sight: GraphqlContext,
  input: { readonly threadId: string; readonly clientMutationId?: string | null },
  resolved: boolean,
): Promise<GraphqlView> {
  const { issue, thread } = threadOf(sight, input.threadId)
  mayWrite(sight, issue, resolved ? 'ResolveReviewThread' : 'UnresolveReviewThread')
  thread.resolvedBy = resolved ? sight.viewer.person.login : null
  issue.updatedMs = sight.world.now()
  return { clientMutationId: input.clientMutationId, thread: await threadView(sight, issue, thread) }
}

function threadOf(sight: GraphqlContext, id: string): { issue: PullIssue; thread: Thread } {
  const found = find(sight, id)
  if (found.is !== 'PullRequestReviewThread') throw wrongKind('PullRequestReviewThread', id)
  return found
}

function pullOf(sight: GraphqlContext, id: string): PullIssue {
  const found = find(sight, id)
  if (found.is !== 'PullRequest') throw wrongKind('PullRequest', id)
  return found.issue
}

function wrongKind(kind: string, id: string): GraphQLError {
  return typedError('NOT_FOUND', `Could not resolve to ${kind} node with the global id of '${id}'.`)
}

/** The author of a pull request needs no push access for it. */
function mayWrite({ viewer, world }: GraphqlContext, issue: PullIssue, action: string): void {
  const own = issue.author === viewer.person.login && viewer.token.readOnly !== true
  if (!issue.repo.archived && (own || world.may(viewer, issue.repo, 'push'))) return
  throw typedError(
    'FORBIDDEN',
    `${viewer.person.login} does not have the correct permissions to execute \`${action}\``,
  )
}

async function setDraft(
  sight: GraphqlContext,
  input: { readonly pullRequestId: string; readonly clientMutationId?: string | null },
  draft: boolean,
): Promise<GraphqlView> {
  const issue = pullOf(sight, input.pullRequestId)
  mayWrite(sight, issue, draft ? 'ConvertPullRequestToDraft' : 'MarkPullRequestReadyForReview')
  if (issue.state === 'closed') throw typedError('UNPROCESSABLE', 'Pull request is closed.')
  if (issue.pull.draft === draft)
    throw typedError(
      'UNPROCESSABLE',
      draft ? 'Pull request is already a draft' : 'Pull request is not in draft state',
    )
  issue.pull.draft = draft
  issue.updatedMs = sight.world.now()
  return { clientMutationId: input.clientMutationId, pullRequest: await pullView(sight, issue) }
}

async function closePull(
  sight: GraphqlContext,
  input: { readonly pullRequestId: string; readonly clientMutationId?: string | null },
): Promise<GraphqlView> {
  const issue = pullOf(sight, input.pullRequestId)
  mayWrite(sight, issue, 'ClosePullRequest')
  setState(sight.world, issue, 'closed', sight.viewer.person.login)
  return { clientMutationId: input.clientMutationId, pullRequest: await pullView(sight, issue) }
}

async function reply(
  sight: GraphqlContext,
  input: {
    readonly pullRequestReviewThreadId: string
    readonly body: string
    readonly clientMutationId?: string | null
  },
): Promise<GraphqlView> {
  const { issue, thread } = threadOf(sight, input.pullRequestReviewThreadId)
  if (sight.viewer.token.readOnly === true || issue.repo.archived)
    throw typedError('FORBIDDEN', 'Resource not accessible by personal access token')
  if (input.body.trim() === '') throw typedError('UNPROCESSABLE', "Body can't be blank")
  const author = sight.viewer.person.login
  const comment = addReply(sight.world, issue, thread, { author, body: input.body })
  return {
    clientMutationId: input.clientMutationId,
    comment: await commentView(sight, issue, thread, comment),
  }
}

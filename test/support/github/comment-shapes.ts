/** JSON of comments, reviews and review comments. */
import { issuePage, pullPage } from './pull-shapes.ts'
import type { Comment, Issue, PullIssue, Repo, Review, ReviewComment, Thread } from './records.ts'
import { associationOf, instant, type Json, type JsonContext, loginJson, repoUrl } from './repo-shapes.ts'

function commentFieldsJson(scene: JsonContext, repo: Repo, comment: Comment): Json {
  return {
    id: comment.id,
    body: comment.body,
    user: loginJson(scene, comment.author),
    created_at: instant(comment.createdMs),
    updated_at: instant(comment.updatedMs),
    author_association: associationOf(scene, repo, comment.author),
  }
}

export function commentPage(scene: JsonContext, issue: Issue, comment: Comment): string {
  return `${issuePage(scene, issue)}#issuecomment-${comment.id}`
}

export function commentJson(scene: JsonContext, issue: Issue, comment: Comment): Json {
  return {
    ...commentFieldsJson(scene, issue.repo, comment),
    node_id: scene.world.nodeId('IC', comment.id, comment),
    url: `${repoUrl(scene, issue.repo)}/issues/comments/${comment.id}`,
    html_url: commentPage(scene, issue, comment),
    issue_url: `${repoUrl(scene, issue.repo)}/issues/${issue.number}`,
    performed_via_github_app: null,
  }
}

export function reviewCommentPage(scene: JsonContext, issue: Issue, comment: ReviewComment): string {
  return `${pullPage(scene, issue)}#discussion_r${comment.id}`
}

export function reviewCommentJson(
  scene: JsonContext,
  issue: PullIssue,
  thread: Thread,
  comment: ReviewComment,
  line: number | undefined,
): Json {
  const url = `${repoUrl(scene, issue.repo)}/pulls/comments/${comment.id}`
  const pullUrl = `${repoUrl(scene, issue.repo)}/pulls/${issue.number}`
  const page = reviewCommentPage(scene, issue, comment)
  return {
    ...commentFieldsJson(scene, issue.repo, comment),
    url,
    node_id: scene.world.nodeId('PRRC', comment.id, comment),
    pull_request_review_id: comment.reviewId,
    diff_hunk: thread.diffHunk,
    path: thread.path,
    commit_id: line === undefined ? thread.commitSha : issue.pull.headSha,
    original_commit_id: thread.commitSha,
    html_url: page,
    pull_request_url: pullUrl,
    _links: { self: { href: url }, html: { href: page }, pull_request: { href: pullUrl } },
    start_line: line === undefined ? null : thread.startLine,
    original_start_line: thread.startLine,
    start_side: thread.startLine === null ? null : thread.side,
    ...(line === undefined ? { line: null } : { line }),
    ...(thread.line === null ? {} : { original_line: thread.line }),
    side: thread.side,
    subject_type: thread.line === null ? 'file' : 'line',
    ...(comment === thread.comments[0] ? {} : { in_reply_to_id: thread.comments[0].id }),
  }
}

export function reviewJson(scene: JsonContext, issue: PullIssue, review: Review): Json {
  const page = `${pullPage(scene, issue)}#pullrequestreview-${review.id}`
  const pullUrl = `${repoUrl(scene, issue.repo)}/pulls/${issue.number}`
  return {
    id: review.id,
    node_id: scene.world.nodeId('PRR', review.id, review),
    user: loginJson(scene, review.author),
    body: review.body,
    state: review.state,
    html_url: page,
    pull_request_url: pullUrl,
    author_association: associationOf(scene, issue.repo, review.author),
    _links: { html: { href: page }, pull_request: { href: pullUrl } },
    ...(review.state === 'PENDING' ? {} : { submitted_at: instant(review.submittedMs) }),
    commit_id: review.commitSha,
  }
}

/**
 * `buildFollowUpPrompt` builds the prompt of a follow-up: the state of the branch, the remaining work, and the remarks
 * of people that nobody has answered yet, with the reports of failed checks among them.
 *
 * Remarks come last and oldest first, each quoted, below a heading that says where they come from. Comments that
 * switchyard wrote never count, because otherwise each follow-up would cause the next one. The host has already removed
 * answered remarks and limited their number.
 */
import { toSingleLine } from '../../core/safe-text.ts'
import type { AgentJob, Job, JobPull } from '../../protocol/frames.ts'
import type { PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import type { FollowUpStart } from '../git/git-ports.ts'
import { describeMemories, describeTicket, operatorInstructions, outputInstructions } from './prompt.ts'
import { quoteOthers, quoteRule } from './quote-others.ts'

/** The line of the run's log about remarks that its job does not hold. */
export function describeUnheard({ repo }: Job, { unheard = [] }: JobPull): string[] {
  if (unheard.length === 0) return []
  return [
    `left out what ${unheard.join(', ')} said: they may not write to ${repo.remote}; name them in repos.${repo.key}.orders to have it obeyed`,
  ]
}

/** A remark on a pull request that awaits an answer. */
export interface PullRemark {
  readonly at: string
  readonly text: string
}

const FILES_NAMED_MAX = 20
/** States of reviews that were never submitted, or were dismissed. */
const VOID_REVIEWS: readonly string[] = ['PENDING', 'DISMISSED']
/** Matches at the start of a line only, because a quotation puts `>` in front. */
const OWN_MARKER = /^<!-- switchyard:/m

/** Oldest first. A review without a text is left out: its remarks are in its threads. */
export function openRemarks({ threads, reviews, comments }: JobPull): readonly PullRemark[] {
  const all = [
    ...threads.filter(isUnresolved).map(threadRemark),
    ...reviews
      .filter(({ state, body }) => isRemarkText(body) && !VOID_REVIEWS.includes(state))
      .map(reviewRemark),
    ...comments.filter(({ body }) => isRemarkText(body)).map(commentRemark),
  ]
  return all.sort((a, b) => (a.at === b.at ? 0 : a.at < b.at ? -1 : 1))
}

const isRemarkText = (body: string): boolean => body.trim() !== '' && !OWN_MARKER.test(body)

const isUnresolved = ({ resolved, comments }: PullThread): boolean =>
  !resolved && comments.some(({ body }) => isRemarkText(body))

const reviewRemark = ({ author, state, body, submittedAt }: PullReview): PullRemark => ({
  at: submittedAt,
  text: `## Review by ${toSingleLine(author)} (${toSingleLine(state)})\n${quoteOthers(body)}`,
})

const commentRemark = (comment: PullComment): PullRemark => ({
  at: comment.createdAt,
  text: `## ${quoteComment(comment)}`,
})

function threadRemark({ path, line, diffHunk, comments }: PullThread): PullRemark {
  const where = `${toSingleLine(path)}${line === undefined ? '' : `, line ${line}`}`
  const visibleComments = comments.filter(({ body }) => isRemarkText(body))
  const hunk = diffHunk.trim() === '' ? [] : [quoteOthers(diffHunk)]
  const quotes = visibleComments.map((comment) => `### ${quoteComment(comment)}`)
  return {
    at: visibleComments.at(-1)?.createdAt ?? '',
    text: [`## Unresolved review thread in ${where}`, ...hunk, ...quotes].join('\n'),
  }
}

function quoteComment({ author, createdAt, body }: PullComment): string {
  return `Comment by ${toSingleLine(author)}, ${createdAt}\n${quoteOthers(body)}`
}

// ---- the prompt ------------------------------------------------------------------------------------------------------

export interface FollowUpPromptInput {
  readonly job: AgentJob
  readonly pull: JobPull
  readonly start: FollowUpStart
  readonly remarks: readonly PullRemark[]
  /** The agent resumes the session in which it did the work, so the prompt leaves out the ticket. */
  readonly isResumed: boolean
}

export function buildFollowUpPrompt(facts: FollowUpPromptInput): string {
  const { job, isResumed } = facts
  const parts = [
    job.agent.instructions,
    outputInstructions,
    ...operatorInstructions(job.run),
    quoteRule,
    describeBranch(facts),
    ...(isResumed ? [] : [describeTicket(job.run.ticket, ITS_TICKET)]),
    ...describeMemories(job.agent.memories),
    ...quoteRemarks(facts),
  ]
  return parts
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .join('\n\n')
}

function describeBranch({ pull, start, remarks }: FollowUpPromptInput): string {
  const { number, url } = pull
  return [
    `# Pull request ${number}: ${toSingleLine(url)}`,
    STATE_SENTENCES[start.state](branchFacts(pull, start)),
    ...mergesNote(start),
    ...(start.preserved.length === 0 ? [] : [keptNote(start.preserved)]),
    ...(remarks.length === 0
      ? []
      : ['Then address what people and checks said below: change what they ask for, or say why not.']),
    'Let your last message say briefly, point by point, what became of each.',
  ].join('\n')
}

interface BranchFacts {
  readonly base: string
  readonly files: string
}

const branchFacts = ({ baseBranch }: JobPull, { conflictFiles }: FollowUpStart): BranchFacts => ({
  base: baseBranch,
  files: conflictFiles.slice(0, FILES_NAMED_MAX).map(toSingleLine).join(', '),
})

const STATE_SENTENCES: Readonly<Record<FollowUpStart['state'], (facts: BranchFacts) => string>> = {
  conflict: ({ base, files }) =>
    `Its branch is being rebased onto the newest ${base}, and the rebase has stopped at a conflict (git status shows it). In conflict: ${files}. First finish the rebase: resolve each conflict so that the intention of both sides is kept, git add the files, and go on with \`GIT_EDITOR=true git rebase --continue\` until it is through. Do not abort or skip it, and leave no conflict markers behind: otherwise nothing is pushed.`,
  rebased: ({ base }) => `Its branch has just been rebased onto the newest ${base}, without a conflict.`,
  current: ({ base }) => `Its branch holds the newest ${base} already.`,
  pushed: () => 'Its branch has been pushed already.',
}

function mergesNote({ head, merges = [] }: FollowUpStart): string[] {
  if (merges.length === 0) return []
  return [
    `The branch held merges (${merges.join(', ')}). A rebase leaves them out, and with them what was changed in them by hand: once it is through, compare with ${head}, where the branch stood before, and take along what is missing.`,
  ]
}

function keptNote(kept: readonly string[]): string {
  return `What this checkout held before and was never pushed is kept in ${kept.map(toSingleLine).join(', ')}; use of it what serves.`
}

const ITS_TICKET = 'It is what the pull request is for, and was worked on before.'

function quoteRemarks({ remarks }: FollowUpPromptInput): string[] {
  if (remarks.length === 0) return []
  const heading =
    '# What people and checks said on the pull request\nWritten by others: it says what they would like to see changed, or what failed.'
  return [heading, ...remarks.map(({ text }) => text)]
}

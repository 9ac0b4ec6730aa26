/**
 * The text of the one comment that a follow-up posts on its pull request: what was done, the agent's last message if
 * an agent ran, and an invisible marker. `git/follow-up-comment.ts` posts it.
 */
import { followUpMarker } from '../../core/run/follow-up.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { JobPull } from '../../protocol/frames.ts'
import type { FollowUpPushResult, FollowUpStart } from '../git/git-ports.ts'
import { closeCode, neutralizeMarkup } from '../git/neutral-markup.ts'
import { noticesOf } from '../git/pull-request-text.ts'

/** Code hosts accept about 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000
const FILES_NAMED_MAX = 10
const SHA_SHOWN = 12

export interface FollowUpReport {
  readonly pull: Pick<JobPull, 'baseBranch'>
  readonly start: FollowUpStart
  readonly pushResult: FollowUpPushResult
  /** The agent's last message; empty if no agent ran. */
  readonly agentSummary: string
}

/** The comment without its marker; also stored as the run's summary. */
export function followUpText({ pull, start, pushResult, agentSummary }: FollowUpReport): string {
  const base = inlineCode(pull.baseBranch)
  const summary = closeCode(truncate(neutralizeMarkup(agentSummary).trim(), SUMMARY_CHARS_MAX))
  const outcome =
    start.state === 'pushed'
      ? `The branch was brought up to date with ${base}.`
      : `${describeRebase(base, start, pushResult)} ${describePush(pushResult)}`
  const notices = noticesOf({ heldBack: pushResult.heldBack, readFirst: pushResult.diff?.readFirst })
  return [...notices, outcome, ...(summary === '' ? [] : [summary])].join('\n\n')
}

export function followUpBody(text: string, id: string): string {
  return `${text}\n\n${followUpMarker(id)}`
}

function describeRebase(base: string, start: FollowUpStart, { isContained }: FollowUpPushResult): string {
  if (isContained) return `All of this branch is in ${base} already.`
  const at = `${base} (${start.base.slice(0, SHA_SHOWN)})`
  if (start.state === 'current') return `The branch holds the newest ${at} already.`
  if (start.state === 'rebased') return `The branch was rebased onto the newest ${at}, without conflicts.`
  const files = start.conflictFiles.slice(0, FILES_NAMED_MAX).map(inlineCode).join(', ')
  return `The branch was rebased onto the newest ${at}; conflicts in ${files} were resolved.`
}

function describePush({ pushed }: FollowUpPushResult): string {
  if (pushed === undefined) return 'Nothing was changed, so nothing was pushed.'
  return `Pushed as ${pushed.slice(0, SHA_SHOWN)}.`
}

/** Replaces backticks, so that a name cannot end the code span around it. */
const inlineCode = (name: string): string => `\`${toSingleLine(name).replaceAll('`', "'")}\``

/**
 * `postCommentOnce` posts the one comment of a follow-up. Each attempt first searches for the comment's marker: the
 * response to an earlier attempt may have been lost, or another worker may have posted the comment.
 *
 * The code host may process a request of a dead worker after that search. Therefore a worker that takes a follow-up
 * over waits a moment before it posts, and whoever finds or posts the comment deletes all repetitions but the first.
 */
import type { CodeHost } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import type { LogToRun } from './git-ports.ts'
import {
  type Attempt,
  isTransientRefusal,
  pause,
  type RetryPorts,
  whilePublishing,
  withRetries,
} from './retry.ts'

export interface CommentTarget {
  readonly codehost: CodeHost
  readonly remote: string
  readonly number: number
  readonly logToRun?: LogToRun | undefined
  readonly job: Pick<Job, 'limits' | 'retentionHours'>
}

/** GitHub ends a request after 10 s and completes nearly all in 1 s; taking over a lease takes some time, too. */
const TAKE_OVER_DELAY_MS = 5_000

export async function hasFollowUpComment(
  ports: RetryPorts,
  target: CommentTarget,
  marker: string,
  signal: AbortSignal,
): Promise<Result<boolean>> {
  const attempt = async (): Promise<Attempt<boolean>> => {
    const found = await target.codehost.hasComment(target.remote, target.number, marker)
    return { result: found, isTransient: !found.ok && isTransientRefusal(found.refusal.kind) }
  }
  const result = await withRetries(ports, signal, attempt, whilePublishing(target.job, target.logToRun))
  if (result.ok && result.value && !signal.aborted) await deleteDuplicates(target, marker)
  return result
}

export interface FollowUpComment {
  readonly marker: string
  readonly body: string
  /** Whether an earlier attempt may have sent the comment already. */
  readonly isTakenOver: boolean
}

export async function postCommentOnce(
  ports: RetryPorts,
  target: CommentTarget,
  { marker, body, isTakenOver }: FollowUpComment,
  mayContinue: () => boolean,
  signal: AbortSignal,
): Promise<Result<void>> {
  const { codehost, remote, number, logToRun, job } = target
  let mayBeInFlight = isTakenOver
  const attempt = async (): Promise<Attempt<void>> => {
    const found = await codehost.hasComment(remote, number, marker)
    if (!found.ok) return { result: found, isTransient: isTransientRefusal(found.refusal.kind) }
    if (found.value) return { result: yes(undefined), isTransient: false }
    if (mayBeInFlight) {
      mayBeInFlight = false
      await pause(TAKE_OVER_DELAY_MS, ports.clock, signal)
      return attempt()
    }
    if (signal.aborted || !mayContinue()) return { result: leaseGone, isTransient: false }
    const posted = await codehost.comment(remote, number, body)
    return { result: posted, isTransient: !posted.ok && isTransientRefusal(posted.refusal.kind) }
  }
  const posted = await withRetries(ports, signal, attempt, whilePublishing(job, logToRun))
  if (posted.ok && !signal.aborted) await deleteDuplicates(target, marker)
  return posted
}

/** Only logs failures: the comment is posted, and that is enough. */
async function deleteDuplicates(
  { codehost, remote, number, logToRun }: CommentTarget,
  marker: string,
): Promise<void> {
  // Search at the start of a line, because a person may quote the marker.
  const dropped = await codehost.dropRepeats(remote, number, `\n${marker}`)
  if (!dropped.ok)
    logToRun?.(`repeated comments of the follow-up could not be deleted: ${dropped.refusal.message}`)
  else if (dropped.value > 0)
    logToRun?.('the follow-up’s comment existed more than once; only the first was kept')
}

const leaseGone = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to the next holder of the lease',
)

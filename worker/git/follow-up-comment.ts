/**
 * The one comment of a follow-up. It bears a marker, which is looked for before each try to post it: the answer to an
 * earlier try may have been lost, or another worker may have come first.
 *
 * What a worker sent with its last breath the code host may take in after that look. So whoever takes a follow-up over
 * gives it a moment first, and whoever finds or makes the comment takes away what repeats it: all keep the first one.
 */
import type { CodeHost } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
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
}

/** GitHub gives up on a request after ten seconds; nearly all are done in one, and to take over takes some as well. */
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
  const result = await withRetries(ports, signal, attempt, whilePublishing(target.logToRun))
  if (result.ok && result.value && !signal.aborted) await deleteDuplicates(target, marker)
  return result
}

export interface FollowUpComment {
  readonly marker: string
  readonly body: string
  /** Somebody may have sent it before, and be gone. */
  readonly isTakenOver: boolean
}

export async function postCommentOnce(
  ports: RetryPorts,
  target: CommentTarget,
  { marker, body, isTakenOver }: FollowUpComment,
  mayContinue: () => boolean,
  signal: AbortSignal,
): Promise<Result<void>> {
  const { codehost, remote, number, logToRun } = target
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
  const posted = await withRetries(ports, signal, attempt, whilePublishing(logToRun))
  if (posted.ok && !signal.aborted) await deleteDuplicates(target, marker)
  return posted
}

/** It is said, and that is what counts. */
async function deleteDuplicates(
  { codehost, remote, number, logToRun }: CommentTarget,
  marker: string,
): Promise<void> {
  // On a line of its own: somebody may quote it.
  const dropped = await codehost.dropRepeats(remote, number, `\n${marker}`)
  if (!dropped.ok)
    logToRun?.(
      `whether the follow-up’s comment is there twice could not be seen to: ${dropped.refusal.message}`,
    )
  else if (dropped.value > 0)
    logToRun?.('the follow-up’s comment was there more than once: the first one stays')
}

const leaseGone = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to whoever goes on with it',
)

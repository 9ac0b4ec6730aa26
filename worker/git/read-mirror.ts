/**
 * `readMirror` runs a git command that reads a mirror or a copy of it, and tells whether damage may explain a failure.
 *
 * Only git's own exit can show damage. A command that timed out, was stopped or killed, or did not start says nothing
 * about what it read; neither does an exit for lack of disk or memory. Git reports damage in many ways, so every other
 * exit counts as damage.
 */
import type { Result } from '../../core/result.ts'
import type { Git, GitCall, GitResult } from './git.ts'
import { explainEnd } from './git-errors.ts'

export type MirrorReading<T> = Result<T> & {
  /** Whether making the repository anew may cure the failure. */
  readonly isDamaged?: boolean
}

export async function readMirror(
  git: Git,
  activity: string,
  call: GitCall,
): Promise<MirrorReading<GitResult>> {
  const ran = await git.run(call)
  if (!ran.ok || ran.value.code === 0) return ran
  const { errorKind, refused } = explainEnd(activity, ran.value)
  return { ...refused, isDamaged: errorKind !== 'machine' }
}

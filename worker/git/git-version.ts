/** Finds the version of the git that this worker uses, and refuses one that is too old for any run. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { explainOldGit, isGitTooOld, parseGitVersion } from '../../core/git-version.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { GIT_PROGRAM } from './git.ts'

const ANSWER_MS_MAX = 10_000

/** Answers undefined for a git whose answer names no version. */
export async function readGitVersion(program = GIT_PROGRAM): Promise<Result<string | undefined>> {
  let version: string | undefined
  try {
    const { stdout } = await promisify(execFile)(program, ['version'], {
      timeout: ANSWER_MS_MAX,
      env: { LC_ALL: 'C' },
    })
    version = parseGitVersion(stdout)
  } catch {
    return no(
      'unavailable',
      `${program} does not start; install git, on Debian or Ubuntu: sudo apt-get install git`,
    )
  }
  if (version !== undefined && isGitTooOld(version, 'runs'))
    return no('unavailable', explainOldGit('a worker', version, 'runs'))
  return yes(version)
}

/**
 * `pushOnce` pushes one branch over one expected commit, and classifies a refusal.
 *
 * Refusals are read from git's porcelain output. The caller decides what to do if the branch was overtaken.
 */
import { type Result, yes } from '../../../core/result.ts'
import { runRepositoryPath } from '../checkout/run-repository.ts'
import type { Git, GitResult, Remote } from '../git.ts'
import { explainFailure, explainUnwritable } from '../git-errors.ts'
import type { RemoteRepository } from '../mirror/mirror-cache.ts'

export interface PushRequest {
  readonly repository: RemoteRepository
  readonly branch: string
  readonly head: string
  /** The commit that the push may replace. */
  readonly expected: string
  /** The worker's own folder of the run. */
  readonly staging: string
  readonly signal: AbortSignal
}

/** As the expected commit: the branch must not exist yet. */
export const NO_COMMIT = ''

export type PushResult =
  | { readonly is: 'pushed' }
  /** The branch has another commit than expected. */
  | { readonly is: 'overtaken' }
  | { readonly is: 'refused'; readonly result: Result<never>; readonly isTransient: boolean }

const PUSH_MS_MAX = 15 * 60_000
const QUERY_MS_MAX = 60_000
/** Matches a porcelain line of a refused ref: `!`, the refs, and git's or the code host's reason in brackets. */
const REFUSED_REF = /^!\t[^\t]*\t\[(?<who>[a-z ]+)\](?: \((?<reason>.*)\))?$/m
const OVERTAKEN =
  /stale info|fetch first|non-fast-forward|remote ref updated|cannot lock ref|already exists|incorrect old value/
/** Git's own server puts the details (both commits) into standard error and not into the reason. */
const MOVED = /cannot lock ref '[^']*': (is at [0-9a-f]+ but expected|reference already exists)/

export async function pushOnce(git: Git, push: PushRequest): Promise<PushResult> {
  const { repository, staging, signal } = push
  const ran = await git.run({
    args: ['push', ...pushArguments(push)],
    folder: runRepositoryPath(staging),
    remote: repository.remote,
    isUntrusted: true,
    timeoutMs: PUSH_MS_MAX,
    signal,
  })
  if (!ran.ok) return { is: 'refused', result: ran, isTransient: false }
  return ran.value.code === 0 ? { is: 'pushed' } : classifyRefusal(push, ran.value)
}

/** Pushes only this branch, and only over this commit. */
function pushArguments({
  repository,
  branch,
  head,
  expected,
}: Omit<PushRequest, 'staging' | 'signal'>): string[] {
  const ref = `refs/heads/${branch}`
  return [
    '--porcelain',
    '--no-verify',
    '--no-follow-tags',
    `--force-with-lease=${ref}:${expected}`,
    repository.remote.address,
    `${head}:${ref}`,
  ]
}

/** Asks the code host for permission with a dry run. Other failures are ignored, the push itself will report them. */
export async function mayPush(
  git: Git,
  {
    folder,
    repository,
    branch,
    head,
    signal,
  }: Omit<PushRequest, 'staging' | 'expected'> & { readonly folder: string },
): Promise<Result<void>> {
  const ran = await git.run({
    args: ['push', '--dry-run', ...pushArguments({ repository, branch, head, expected: head })],
    folder,
    remote: repository.remote,
    timeoutMs: QUERY_MS_MAX,
    signal,
  })
  if (!ran.ok || ran.value.code === 0) return yes(undefined)
  const failure = explainFailure(`pushing ${branch} to ${repository.name}`, ran.value.stderr)
  return failure.isAboutRights === true ? explainUnwritable(repository, failure) : yes(undefined)
}

function classifyRefusal({ branch, repository }: PushRequest, { output, stderr }: GitResult): PushResult {
  const reason = REFUSED_REF.exec(output)?.groups?.reason ?? ''
  if (OVERTAKEN.test(reason) || MOVED.test(stderr)) return { is: 'overtaken' }
  const failure = explainFailure(`pushing ${branch} to ${repository.name}`, `${reason}\n${stderr}`)
  return {
    is: 'refused',
    result: explainUnwritable(repository, failure),
    isTransient: failure.errorKind === 'network',
  }
}

/** The commit of a branch on the code host; undefined: the branch does not exist. */
export async function readRemoteCommit(
  git: Git,
  remote: Remote,
  branch: string,
  signal: AbortSignal,
): Promise<Result<string | undefined>> {
  const ref = `refs/heads/${branch}`
  const listed = await git.runChecked(`asking for ${branch}`, {
    args: ['ls-remote', '--refs', remote.address, ref],
    remote,
    timeoutMs: QUERY_MS_MAX,
    signal,
  })
  if (!listed.ok) return listed
  const line = listed.value.output.split('\n').find((entry) => entry.endsWith(`\t${ref}`))
  return yes(line?.slice(0, line.indexOf('\t')))
}

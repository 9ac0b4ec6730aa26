/**
 * One push of one branch, only over the commit that is expected there, and what its refusal means.
 *
 * A refusal is read from git's porcelain lines; whoever pushes decides what follows from having been overtaken.
 */
import { type Result, yes } from '../../core/result.ts'
import type { Git, GitDone, Remote } from './git.ts'
import { accountOf } from './git-errors.ts'
import type { Wanted } from './mirror-cache.ts'
import { deskRepository } from './run-repository.ts'

export interface Push {
  readonly wanted: Wanted
  readonly branch: string
  readonly head: string
  /** The commit that is replaced. */
  readonly expected: string
  /** The worker's own folder of the run. */
  readonly desk: string
  readonly signal: AbortSignal
}

/** As git says that a branch must not be there. */
export const ABSENT = ''

export type Pushed =
  | { readonly is: 'pushed' }
  /** Another commit is there than was expected. */
  | { readonly is: 'overtaken' }
  | { readonly is: 'refused'; readonly answer: Result<never>; readonly passes: boolean }

const PUSH_MS_MAX = 15 * 60_000
const LOOK_MS_MAX = 60_000
/** `!`, the refs, and the reason in brackets, in the words of git or of the code host. */
const REFUSED_LINE = /^!\t[^\t]*\t\[(?<who>[a-z ]+)\](?: \((?<reason>.*)\))?$/m
const OVERTAKEN =
  /stale info|fetch first|non-fast-forward|remote ref updated|cannot lock ref|already exists|incorrect old value/
/** Of git's own servers the reason says only that it failed; what they complain of names the two commits. */
const MOVED = /cannot lock ref '[^']*': (is at [0-9a-f]+ but expected|reference already exists)/

export async function pushOnce(git: Git, push: Push): Promise<Pushed> {
  const { wanted, desk, signal } = push
  const ran = await git.run({
    args: ['push', ...howTo(push)],
    folder: deskRepository(desk),
    remote: wanted.remote,
    wary: true,
    timeoutMs: PUSH_MS_MAX,
    signal,
  })
  if (!ran.ok) return { is: 'refused', answer: ran, passes: false }
  return ran.value.code === 0 ? { is: 'pushed' } : refused(push, ran.value)
}

/** Nothing but this one branch, over this one commit. */
function howTo({ wanted, branch, head, expected }: Omit<Push, 'desk' | 'signal'>): string[] {
  const ref = `refs/heads/${branch}`
  return [
    '--porcelain',
    '--no-verify',
    '--no-follow-tags',
    `--force-with-lease=${ref}:${expected}`,
    wanted.remote.address,
    `${head}:${ref}`,
  ]
}

/** Asked of the code host without changing anything. What else is the matter the push itself will say. */
export async function mayPush(
  git: Git,
  { folder, wanted, branch, head, signal }: Omit<Push, 'desk' | 'expected'> & { readonly folder: string },
): Promise<Result<void>> {
  const ran = await git.run({
    args: ['push', '--dry-run', ...howTo({ wanted, branch, head, expected: head })],
    folder,
    remote: wanted.remote,
    timeoutMs: LOOK_MS_MAX,
    signal,
  })
  if (!ran.ok || ran.value.code === 0) return yes(undefined)
  const { refusal } = accountOf(`pushing ${branch} to ${wanted.name}`, ran.value.complaint).no
  return refusal.kind === 'forbidden' || refusal.kind === 'unauthorized'
    ? { ok: false, refusal }
    : yes(undefined)
}

function refused({ branch, wanted }: Push, { output, complaint }: GitDone): Pushed {
  const reason = REFUSED_LINE.exec(output)?.groups?.reason ?? ''
  if (OVERTAKEN.test(reason) || MOVED.test(complaint)) return { is: 'overtaken' }
  const account = accountOf(`pushing ${branch} to ${wanted.name}`, `${reason}\n${complaint}`)
  return { is: 'refused', answer: account.no, passes: account.trouble === 'network' }
}

/** Where a branch stands on the code host right now; undefined: it is not there. */
export async function commitAt(
  git: Git,
  remote: Remote,
  branch: string,
  signal: AbortSignal,
): Promise<Result<string | undefined>> {
  const ref = `refs/heads/${branch}`
  const listed = await git.done(`asking for ${branch}`, {
    args: ['ls-remote', '--refs', remote.address, ref],
    remote,
    timeoutMs: LOOK_MS_MAX,
    signal,
  })
  if (!listed.ok) return listed
  const line = listed.value.output.split('\n').find((one) => one.endsWith(`\t${ref}`))
  return yes(line?.slice(0, line.indexOf('\t')))
}

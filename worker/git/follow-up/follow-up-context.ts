/**
 * Shared by all steps of a follow-up: the context, the parser for the answers of its shell scripts, `withBothMirrors`,
 * which locks the mirrors of base and fork, and `readBranchHeads`, which reads the two branches there.
 */
import { createHash } from 'node:crypto'
import { no, type Result, yes } from '../../../core/result.ts'
import type { Job, JobPull } from '../../../protocol/frames.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { CheckoutSourceRequest } from '../checkout/checkout-source.ts'
import type { Git } from '../git.ts'
import type { LogToRun, RunFolders, SandboxRunner } from '../git-ports.ts'
import { readRef } from '../mirror/bare-repository.ts'
import type { MirrorCache } from '../mirror/mirror-cache.ts'
import type { PullRepositories } from '../resolve-remote.ts'
import { type LongRetry, type RetryPorts, whileFetching } from '../retry.ts'
import type { CollectPorts } from '../work/collect.ts'
import { SEAL_HEADER } from '../work/rewrite-commits.ts'
import { ANSWER_PREFIX } from './follow-up-scripts.ts'

export interface FollowUpGitPorts extends CollectPorts, RetryPorts {}

export interface FollowUpContext {
  readonly job: Job
  readonly pull: JobPull
  /** Marks the follow-up's commit, so that every attempt recognises it. */
  readonly seal: string
  readonly number: number
  readonly repositories: PullRepositories
  readonly folders: RunFolders
  readonly sandbox: SandboxRunner
  readonly logToRun?: LogToRun
}

/** Commits are public, so the seal is a hash: the id itself marks our comment and must not become known. */
export function sealOf(id: string): string {
  return createHash('sha256').update(`follow-up ${id}`).digest('hex')
}

// ---- script answers --------------------------------------------------------------------------------------------------

export type ScriptAnswers = (what: string) => readonly string[]

export function parseAnswers(output: string): ScriptAnswers {
  const lines = output.split('\n').filter((line) => line.startsWith(ANSWER_PREFIX))
  return (what) =>
    lines
      .map((line) => line.slice(ANSWER_PREFIX.length))
      .filter((line) => line.startsWith(`${what} `))
      .map((line) => printable(line.slice(what.length + 1)))
}

export const parseCommit = ([text = '']: readonly string[]): string | undefined =>
  /^[0-9a-f]{40}$/.test(text) ? text : undefined

// ---- the mirrors -------------------------------------------------------------------------------------------------------

export interface MirrorFolders {
  readonly base: string
  readonly head: string
}

/** The source of the checkout: the branch that the pull request targets, and the commits of its own branch. */
export function describeSource(
  { pull, folders }: FollowUpContext,
  mirrors: MirrorFolders,
  { base, head }: BranchHeads,
  signal: AbortSignal,
): CheckoutSourceRequest {
  const { staging } = folders
  return {
    mirror: mirrors.base,
    headMirror: mirrors.head,
    branch: pull.baseBranch,
    base,
    head,
    staging,
    isRepeatable: false,
    signal,
  }
}

/** Updates both mirrors, then lends them. Always locks in the same order, so that two follow-ups cannot deadlock. */
export function withBothMirrors<T>(
  cache: MirrorCache,
  { repositories: { base, head }, logToRun }: Pick<FollowUpContext, 'repositories' | 'logToRun'>,
  signal: AbortSignal,
  work: (folders: MirrorFolders) => Promise<Result<T>>,
  longRetry: LongRetry = whileFetching(logToRun),
): Promise<Result<T>> {
  const both = { base: cache.folderOf(base), head: cache.folderOf(head) }
  if (both.base === both.head) return cache.use(base, signal, () => work(both), longRetry)
  const [first, second] = both.base < both.head ? [base, head] : [head, base]
  return cache.use(first, signal, () => cache.use(second, signal, () => work(both), longRetry), longRetry)
}

// ---- the branches --------------------------------------------------------------------------------------------------

export interface BranchHeads {
  /** The commit of the pull request's branch. */
  readonly head: string
  /** The commit of the branch that the pull request targets. */
  readonly base: string
}

interface BranchQuery {
  readonly seal: string
  readonly job: { readonly repo: { readonly remote: string } }
  readonly pull: { readonly headBranch: string; readonly headRemote: string; readonly baseBranch: string }
}

const LOCAL_MS_MAX = 60_000
/**
 * Limits the search for the sealed commit. A person may have pushed many commits on top of it; and a fork's mirror may
 * lack the newest base commit, in which case git lists the whole history.
 */
const COMMITS_SEARCHED_MAX = 50_000

/**
 * Reads the commits of a pull request's two branches from the worker's mirrors, and whether this follow-up was already
 * pushed.
 */
export async function readBranchHeads(
  git: Git,
  folders: { readonly base: string; readonly head: string },
  { seal, job, pull }: BranchQuery,
): Promise<Result<BranchHeads & { readonly isPushed: boolean }>> {
  const { baseBranch, headBranch } = pull
  const base = await readRef(folders.base, `refs/heads/${baseBranch}`)
  if (base === undefined) return missingBranch(job.repo.remote, baseBranch)
  const head = await readRef(folders.head, `refs/heads/${headBranch}`)
  if (head === undefined) return missingBranch(pull.headRemote, headBranch)
  const isPushed = await hasSealedCommit(git, folders.head, { base, head }, seal)
  return isPushed.ok ? yes({ base, head, isPushed: isPushed.value }) : isPushed
}

function missingBranch(remote: string, branch: string) {
  return no('unknown', `${remote} has no branch ${branch}; restore it, or close the pull request`)
}

/** Searches the commits that the base lacks. `rev-list --header` indents messages, so only a header line can match. */
async function hasSealedCommit(
  git: Git,
  folder: string,
  { base, head }: BranchHeads,
  seal: string,
): Promise<Result<boolean>> {
  const most = `--max-count=${COMMITS_SEARCHED_MAX}`
  const listed = await git.runChecked('looking at what was pushed', {
    args: ['rev-list', '--header', '--ignore-missing', most, head, `^${base}`],
    searchFor: `\n${SEAL_HEADER} ${seal}\n`,
    folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  return listed.ok ? yes(listed.value.hasFound === true) : listed
}

/**
 * Shared by all steps of a follow-up: the context, the parser for the answers of its shell scripts, and
 * `withBothMirrors`, which locks the mirrors of base and fork.
 */
import { createHash } from 'node:crypto'
import type { Result } from '../../core/result.ts'
import type { Job, JobPull } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { CheckoutSourceRequest } from './checkout-source.ts'
import type { CollectPorts } from './collect.ts'
import type { BranchHeads } from './follow-up-branches.ts'
import { ANSWER_PREFIX } from './follow-up-scripts.ts'
import type { LogToRun, RunFolders, SandboxRunner } from './git-ports.ts'
import type { MirrorCache } from './mirror-cache.ts'
import type { PullRepositories } from './resolve-remote.ts'
import { type LongRetry, type RetryPorts, whileFetching } from './retry.ts'

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

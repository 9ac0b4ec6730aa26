/**
 * What each step of a follow-up needs to know, how its scripts answer, and how two copies of repositories are lent at
 * once.
 */
import { createHash } from 'node:crypto'
import type { Result } from '../../core/result.ts'
import type { Job, JobPull } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { CollectParts } from './collect.ts'
import { HEAD_CACHE_INSIDE, SAYS } from './follow-up-scripts.ts'
import { CACHE_INSIDE } from './git-inside-sandbox.ts'
import type { Inside, RunFolders, TellWhy } from './git-ports.ts'
import type { RepositoryCache } from './mirror-cache.ts'
import type { PullPlaces } from './resolve-remote.ts'
import { fetching, type Patience } from './retry.ts'

export interface FollowUpParts extends CollectParts, Patience {}

export interface FollowUpErrand {
  readonly job: Job
  readonly pull: JobPull
  /** By which its commit is known, however often it is begun. */
  readonly seal: string
  readonly number: number
  readonly places: PullPlaces
  readonly folders: RunFolders
  readonly inside: Inside
  readonly told?: TellWhy
}

/** Everybody may read a commit: what it says of the follow-up must not tell the id that marks our comment. */
export function sealOf(id: string): string {
  return createHash('sha256').update(`follow-up ${id}`).digest('hex')
}

// ---- what scripts say ------------------------------------------------------------------------------------------------

export type Said = (what: string) => readonly string[]

export function saidIn(output: string): Said {
  const lines = output.split('\n').filter((line) => line.startsWith(SAYS))
  return (what) =>
    lines
      .map((line) => line.slice(SAYS.length))
      .filter((line) => line.startsWith(`${what} `))
      .map((line) => printable(line.slice(what.length + 1)))
}

export const commitIn = ([text = '']: readonly string[]): string | undefined =>
  /^[0-9a-f]{40}$/.test(text) ? text : undefined

// ---- the copies --------------------------------------------------------------------------------------------------------

export interface BothFolders {
  readonly base: string
  readonly head: string
}

export const mountsOf = ({ base, head }: BothFolders) => [
  { from: base, to: CACHE_INSIDE },
  { from: head, to: HEAD_CACHE_INSIDE },
]

/** Both up to date. In one order for all who need two, or two of them could wait for each other for ever. */
export function withBoth<T>(
  cache: RepositoryCache,
  { places: { base, head }, told }: Pick<FollowUpErrand, 'places' | 'told'>,
  signal: AbortSignal,
  work: (folders: BothFolders) => Promise<Result<T>>,
): Promise<Result<T>> {
  const endurance = fetching(told)
  const both = { base: cache.folderOf(base), head: cache.folderOf(head) }
  if (both.base === both.head) return cache.use(base, signal, () => work(both), endurance)
  const [first, second] = both.base < both.head ? [base, head] : [head, base]
  return cache.use(first, signal, () => cache.use(second, signal, () => work(both), endurance), endurance)
}

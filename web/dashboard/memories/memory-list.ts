/** The facts of each repository that the filters of the address leave. */
import type { RepoMemory } from '../../../protocol/run.ts'
import { matchWords } from '../shell/match-words.ts'

export interface RepoFacts {
  /** As `owner/name`. */
  readonly remote: string
  readonly facts: readonly RepoMemory[]
  /** How many facts it has without a filter. */
  readonly count: number
}

export interface MemoryFilter {
  readonly words: string
  /** Empty for all of them. */
  readonly remote: string
}

export function filterMemories(
  repos: Readonly<Record<string, readonly RepoMemory[]>>,
  { words, remote }: MemoryFilter,
): RepoFacts[] {
  return Object.entries(repos)
    .filter(([name]) => remote === '' || name === remote)
    .map(([name, all]) => ({
      remote: name,
      facts: all.filter(({ text, ident }) => matchWords(`${text} ${ident ?? ''}`, words) !== undefined),
      count: all.length,
    }))
    .filter(({ facts }) => facts.length > 0)
    .toSorted((a, b) => a.remote.localeCompare(b.remote))
}

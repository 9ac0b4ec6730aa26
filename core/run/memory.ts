/**
 * Maintains the facts that runs record about a repository for later runs.
 *
 * A fact is one line. Two facts are the same when they differ only in white space and case; then the older wording
 * stays and its hit count grows. The number of facts is limited: facts with the fewest hits go first, the older ones
 * before the newer, but facts recorded just now always stay.
 */
import { MEMORIES_PER_REPO_MAX, MEMORY_CHARS_MAX } from '../../protocol/limits.ts'
import type { RepoMemory } from '../../protocol/run.ts'
import { no, type Result, yes } from '../result.ts'
import { toSingleLine, truncate } from '../safe-text.ts'

export interface MemoryAuthor {
  /** The identifier of the ticket whose run recorded the facts. */
  readonly ident: string
  readonly now: string
  readonly newId: () => string
}

/** Adds the facts of one run and returns all facts, newest first. A fact that the run repeats counts once. */
export function recordFacts(
  memories: readonly RepoMemory[],
  facts: readonly string[],
  by: MemoryAuthor,
): RepoMemory[] {
  const known = new Map(memories.map((memory) => [comparisonKey(memory.text), memory]))
  const recorded = distinctFacts(facts).map(([key, text]) => recordFact(known.get(key), text, by))
  const fresh = new Set(recorded.map(({ id }) => id))
  const others = memories.filter(({ id }) => !fresh.has(id))
  return keepMostValuable([...recorded, ...others], fresh).sort((a, b) =>
    compareTexts(b.updatedAt, a.updatedAt),
  )
}

export function forgetFact(memories: readonly RepoMemory[], id: string): Result<RepoMemory[]> {
  const left = memories.filter((memory) => memory.id !== id)
  return left.length < memories.length ? yes(left) : no('unknown', `no memory ${id} of this repository`)
}

/** Returns the stored form of a fact; empty when the fact has no content. */
export function normalizeFact(fact: string): string {
  return truncate(toSingleLine(fact), MEMORY_CHARS_MAX).trimEnd()
}

const comparisonKey = (text: string): string => text.normalize().toLowerCase()

function distinctFacts(facts: readonly string[]): [key: string, text: string][] {
  const found = new Map<string, string>()
  for (const text of facts.map(normalizeFact)) {
    const key = comparisonKey(text)
    if (text !== '' && !found.has(key)) found.set(key, text)
  }
  return [...found]
}

function recordFact(memory: RepoMemory | undefined, text: string, by: MemoryAuthor): RepoMemory {
  const { ident, now } = by
  if (memory === undefined) return { id: by.newId(), text, createdAt: now, updatedAt: now, hits: 1, ident }
  return { ...memory, updatedAt: now, hits: memory.hits + 1, ident }
}

function keepMostValuable(memories: RepoMemory[], fresh: ReadonlySet<string>): RepoMemory[] {
  if (memories.length <= MEMORIES_PER_REPO_MAX) return memories
  const worth = (a: RepoMemory, b: RepoMemory): number =>
    Number(fresh.has(b.id)) - Number(fresh.has(a.id)) ||
    b.hits - a.hits ||
    compareTexts(b.updatedAt, a.updatedAt)
  return memories.toSorted(worth).slice(0, MEMORIES_PER_REPO_MAX)
}

/** Instants of the same form sort as text. */
const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

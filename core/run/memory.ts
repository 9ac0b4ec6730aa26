/**
 * Maintains the facts that runs record about a repository for later runs.
 *
 * A fact is one line. Two facts are the same when they differ only in white space and case; then the older wording
 * stays and its hit count grows. Later runs are told of a fact only when it is kept: somebody merged a pull request of
 * a run that recorded it, or kept it by hand. The number of facts is limited: those that nobody kept go first, of these
 * the ones with the fewest hits, the older ones before the newer; but facts recorded just now always stay.
 */
import { MEMORY_CHARS_MAX } from '../../protocol/limits.ts'
import type { RepoMemory } from '../../protocol/run.ts'
import { no, type Result, yes } from '../result.ts'
import { toSingleLine, truncate } from '../safe-text.ts'

export const MEMORIES_PER_REPO_MAX = 500
/** Facts that are known already do not count. */
export const NEW_FACTS_PER_RUN_MAX = 10

export interface MemoryAuthor {
  readonly runId: string
  /** The identifier of the run's ticket. */
  readonly ident: string
  readonly now: string
  readonly newId: () => string
}

/** A fact with the last runs that recorded it, the first of them first. Earlier versions stored no runs. */
export interface StoredFact extends RepoMemory {
  readonly runs?: readonly string[]
}

/** A run that repeats itself counts once; a fact whose earliest runs are forgotten may count one of them again. */
const RUNS_NAMED_MAX = 20

/** Adds the facts of one run and returns all facts, newest first. Of facts that nobody knew, a run has a few. */
export function recordFacts(
  memories: readonly StoredFact[],
  facts: readonly string[],
  by: MemoryAuthor,
): StoredFact[] {
  const known = new Map(memories.map((memory) => [comparisonKey(memory.text), memory]))
  let left = NEW_FACTS_PER_RUN_MAX - memories.filter(({ runs }) => runs?.[0] === by.runId).length
  const recorded = distinctFacts(facts)
    .filter(([key]) => known.has(key) || left-- > 0)
    .map(([key, text]) => recordFact(known.get(key), text, by))
  const fresh = new Set(recorded.map(({ id }) => id))
  const others = memories.filter(({ id }) => !fresh.has(id))
  return keepMostValuable([...recorded, ...others], fresh).sort((a, b) =>
    compareTexts(b.updatedAt, a.updatedAt),
  )
}

/** Later runs are told of a fact from now on. */
export function keepFact(memories: readonly StoredFact[], id: string): Result<StoredFact[]> {
  if (memories.every((memory) => memory.id !== id)) return no('unknown', `no memory ${id} of this repository`)
  return yes(memories.map((memory) => (memory.id === id ? { ...memory, state: 'kept' } : memory)))
}

/** A pull request of the run was merged: somebody has read what it did. Returns undefined where that changes nothing. */
export function keepFactsOf(memories: readonly StoredFact[], runId: string): StoredFact[] | undefined {
  const isKept = ({ state, runs }: StoredFact): boolean => state === 'new' && runs?.includes(runId) === true
  if (!memories.some(isKept)) return undefined
  return memories.map((memory) => (isKept(memory) ? { ...memory, state: 'kept' } : memory))
}

/** The facts that runs are told. */
export const keptFacts = (memories: readonly RepoMemory[]): readonly RepoMemory[] =>
  memories.filter(({ state }) => state !== 'new')

export function shownFact({ runs: _, ...memory }: StoredFact): RepoMemory {
  return memory
}

export function forgetFact(memories: readonly StoredFact[], id: string): Result<StoredFact[]> {
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

function recordFact(memory: StoredFact | undefined, text: string, by: MemoryAuthor): StoredFact {
  const { runId, ident, now } = by
  if (memory === undefined)
    return {
      id: by.newId(),
      text,
      createdAt: now,
      updatedAt: now,
      hits: 1,
      ident,
      state: 'new',
      runs: [runId],
    }
  const { runs = [] } = memory
  if (runs.includes(runId)) return { ...memory, updatedAt: now, ident }
  const last = [...runs, runId].slice(-RUNS_NAMED_MAX)
  return { ...memory, updatedAt: now, hits: memory.hits + 1, ident, runs: last }
}

function keepMostValuable(memories: StoredFact[], fresh: ReadonlySet<string>): StoredFact[] {
  if (memories.length <= MEMORIES_PER_REPO_MAX) return memories
  const worth = (a: StoredFact, b: StoredFact): number =>
    Number(fresh.has(b.id)) - Number(fresh.has(a.id)) ||
    Number(b.state !== 'new') - Number(a.state !== 'new') ||
    b.hits - a.hits ||
    compareTexts(b.updatedAt, a.updatedAt)
  return memories.toSorted(worth).slice(0, MEMORIES_PER_REPO_MAX)
}

/** Instants of the same form sort as text. */
const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

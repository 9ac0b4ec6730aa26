/**
 * Memories stores what runs learnt about repositories. Only runs add memories; people keep or delete them.
 *
 * Decisions use the latest memories, on disk or not; the API shows only memories that are on disk.
 */
import { damageText } from '../../core/damage.ts'
import { no, type Result, yes } from '../../core/result.ts'
import {
  forgetFact,
  keepFact,
  keepFactsOf,
  keptFacts,
  type MemoryAuthor,
  recordFacts,
  type StoredFact,
  shownFact,
} from '../../core/run/memory.ts'
import type { MemoriesResponse, RepoMemory } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

interface StoredMemories {
  readonly memories: readonly StoredFact[]
}

export interface MemoriesPorts extends StoredCollectionPorts {
  readonly newId: () => string
}

export class Memories implements CommitParticipant {
  readonly #newId: () => string
  readonly #stored: StoredCollection<StoredMemories>

  constructor(ports: MemoriesPorts) {
    this.#newId = ports.newId
    // Every dispatch reads the memories of its repository.
    this.#stored = new StoredCollection('memory', ports, { keepsValues: true })
  }

  /** Returns what runs of a repository are told, on disk or not, the newest first. */
  kept(repo: string): readonly RepoMemory[] {
    return keptFacts(this.#latest(repo))
  }

  /** Refused while the stored memories are damaged: new ones would replace them. */
  record(repo: string, facts: readonly string[], by: Omit<MemoryAuthor, 'newId'>): Result<void> {
    const intact = this.#checkIntact(repo)
    if (intact.ok) this.#set(repo, recordFacts(this.#latest(repo), facts, { ...by, newId: this.#newId }))
    return intact
  }

  keep(repo: string, id: string): Result<void> {
    return this.#change(repo, (memories) => keepFact(memories, id))
  }

  /** A pull request of the run was merged. A damaged memory keeps what it has. */
  onPullMerged(runId: string, repo: string): void {
    const kept = keepFactsOf(this.#latest(repo), runId)
    if (kept !== undefined && this.#checkIntact(repo).ok) this.#set(repo, kept)
  }

  forget(repo: string, id: string): Result<void> {
    return this.#change(repo, (memories) => forgetFact(memories, id))
  }

  clear(repo: string): Result<void> {
    const intact = this.#checkIntact(repo)
    if (!intact.ok) return intact
    if (this.#latest(repo).length === 0) return no('unknown', `nothing is remembered about ${repo}`)
    this.#set(repo, [])
    return { ok: true, value: undefined }
  }

  #latest(repo: string): readonly StoredFact[] {
    return this.#stored.get(repo)?.memories ?? []
  }

  #change(repo: string, change: (memories: readonly StoredFact[]) => Result<StoredFact[]>): Result<void> {
    const intact = this.#checkIntact(repo)
    if (!intact.ok) return intact
    const changed = change(this.#latest(repo))
    if (changed.ok) this.#set(repo, changed.value)
    return changed.ok ? yes(undefined) : changed
  }

  #checkIntact(repo: string): Result<void> {
    const damage = this.#stored.damageOf(repo)
    return damage === undefined ? yes(undefined) : no('failed', damageText(damage))
  }

  /** Lists the memories on disk, without repositories that have none. */
  listDurable(): MemoriesResponse {
    const repos: Record<string, RepoMemory[]> = {}
    for (const [repo, { memories }] of this.#stored.listDurable())
      if (memories.length > 0) repos[repo] = memories.map(shownFact)
    return { repos }
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  #set(repo: string, memories: readonly StoredFact[]): void {
    this.#stored.set(repo, memories.length === 0 ? null : { memories })
  }
}

/**
 * Memories stores what runs learnt about repositories. Only runs add memories; people may delete them.
 *
 * Decisions use the latest memories, on disk or not; the API shows only memories that are on disk.
 */
import { damageText } from '../../core/damage.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { forgetFact, recordFacts } from '../../core/run/memory.ts'
import type { MemoriesResponse, RepoMemory } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

interface StoredMemories {
  readonly memories: readonly RepoMemory[]
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

  /** Returns the memories of a repository, on disk or not, the newest first. */
  latest(repo: string): readonly RepoMemory[] {
    return this.#stored.get(repo)?.memories ?? []
  }

  /** Refused while the stored memories are damaged: new ones would replace them. */
  record(
    repo: string,
    facts: readonly string[],
    by: { readonly ident: string; readonly now: string },
  ): Result<void> {
    const intact = this.#checkIntact(repo)
    if (intact.ok) this.#set(repo, recordFacts(this.latest(repo), facts, { ...by, newId: this.#newId }))
    return intact
  }

  forget(repo: string, id: string): Result<void> {
    const intact = this.#checkIntact(repo)
    if (!intact.ok) return intact
    const remaining = forgetFact(this.latest(repo), id)
    if (!remaining.ok) return remaining
    this.#set(repo, remaining.value)
    return { ok: true, value: undefined }
  }

  clear(repo: string): Result<void> {
    const intact = this.#checkIntact(repo)
    if (!intact.ok) return intact
    if (this.latest(repo).length === 0) return no('unknown', `nothing is remembered about ${repo}`)
    this.#set(repo, [])
    return { ok: true, value: undefined }
  }

  #checkIntact(repo: string): Result<void> {
    const damage = this.#stored.damageOf(repo)
    return damage === undefined ? yes(undefined) : no('failed', damageText(damage))
  }

  /** Lists the memories on disk, without repositories that have none. */
  listDurable(): MemoriesResponse {
    const repos: Record<string, RepoMemory[]> = {}
    for (const [repo, { memories }] of this.#stored.listDurable())
      if (memories.length > 0) repos[repo] = [...memories]
    return { repos }
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  #set(repo: string, memories: readonly RepoMemory[]): void {
    this.#stored.set(repo, memories.length === 0 ? null : { memories })
  }
}

/**
 * Memories stores what runs learnt about repositories. Only runs add memories; people may delete them.
 *
 * Decisions use the latest memories, on disk or not; the API shows only memories that are on disk.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import { forgetFact, recordFacts } from '../../core/run/memory.ts'
import type { MemoriesResponse, RepoMemory } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

interface StoredMemories {
  readonly memories: readonly RepoMemory[]
}

export interface MemoriesPorts {
  readonly keyValues: KeyValues
  readonly newId: () => string
  readonly requestCommit: () => void
}

export class Memories implements CommitParticipant {
  readonly #ports: MemoriesPorts
  /** Changed values that are not on disk yet. */
  readonly #uncommitted = new Map<string, StoredMemories>()
  #toWrite = new Map<string, StoredMemories>()

  constructor(ports: MemoriesPorts) {
    this.#ports = ports
  }

  /** Returns the memories of a repository, on disk or not, the newest first. */
  latest(repo: string): readonly RepoMemory[] {
    return (this.#uncommitted.get(repo) ?? this.#stored(repo))?.memories ?? []
  }

  record(repo: string, facts: readonly string[], by: { readonly ident: string; readonly now: string }): void {
    const newId = this.#ports.newId
    this.#set(repo, recordFacts(this.latest(repo), facts, { ...by, newId }))
  }

  forget(repo: string, id: string): Result<void> {
    const remaining = forgetFact(this.latest(repo), id)
    if (!remaining.ok) return remaining
    this.#set(repo, remaining.value)
    return { ok: true, value: undefined }
  }

  clear(repo: string): Result<void> {
    if (this.latest(repo).length === 0) return no('unknown', `nothing is remembered about ${repo}`)
    this.#set(repo, [])
    return { ok: true, value: undefined }
  }

  /** Lists the memories on disk, without repositories that have none. */
  listDurable(): MemoriesResponse {
    const repos: Record<string, RepoMemory[]> = {}
    for (const [repo, stored] of this.#ports.keyValues.all('memory')) {
      const { memories } = stored as StoredMemories
      if (memories.length > 0) repos[repo] = [...memories]
    }
    return { repos }
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    const writes = [...written].map(
      ([key, stored]): Write => ({
        table: 'key-value',
        collection: 'memory',
        key,
        value: stored.memories.length === 0 ? null : stored,
      }),
    )
    return {
      writes,
      onCommitted: () => {
        for (const [repo, stored] of written)
          if (this.#uncommitted.get(repo) === stored) this.#uncommitted.delete(repo)
      },
    }
  }

  #stored(repo: string): StoredMemories | undefined {
    // The cast holds because only this class writes to the collection.
    return this.#ports.keyValues.get('memory', repo) as StoredMemories | undefined
  }

  #set(repo: string, memories: readonly RepoMemory[]): void {
    const stored = { memories }
    this.#uncommitted.set(repo, stored)
    this.#toWrite.set(repo, stored)
    this.#ports.requestCommit()
  }
}

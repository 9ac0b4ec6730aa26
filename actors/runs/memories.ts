/**
 * What runs learnt about repositories: written by runs alone, forgotten by people.
 *
 * Decisions are made on the newest word; what is told is what is on disk.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import { forgotten, remembered } from '../../core/run/memory.ts'
import type { MemoriesResponse, RepoMemory } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

interface Kept {
  readonly memories: readonly RepoMemory[]
}

export interface MemoriesPorts {
  readonly keyValues: KeyValues
  readonly newId: () => string
  readonly requestCommit: () => void
}

export class Memories implements CommitParticipant {
  readonly #ports: MemoriesPorts
  /** Changed, and not landed yet. */
  readonly #newest = new Map<string, Kept>()
  #toWrite = new Map<string, Kept>()

  constructor(ports: MemoriesPorts) {
    this.#ports = ports
  }

  /** The newest word, newest memory first. */
  of(repo: string): readonly RepoMemory[] {
    return (this.#newest.get(repo) ?? this.#stored(repo))?.memories ?? []
  }

  record(repo: string, facts: readonly string[], by: { readonly ident: string; readonly now: string }): void {
    const newId = this.#ports.newId
    this.#set(repo, remembered(this.of(repo), facts, { ...by, newId }))
  }

  forget(repo: string, id: string): Result<void> {
    const left = forgotten(this.of(repo), id)
    if (!left.ok) return left
    this.#set(repo, left.value)
    return { ok: true, value: undefined }
  }

  clear(repo: string): Result<void> {
    if (this.of(repo).length === 0) return no('unknown', `nothing is remembered about ${repo}`)
    this.#set(repo, [])
    return { ok: true, value: undefined }
  }

  /** What is on disk. Repositories without memories are left out. */
  durable(): MemoriesResponse {
    const repos: Record<string, RepoMemory[]> = {}
    for (const [repo, kept] of this.#ports.keyValues.all('memory')) {
      const { memories } = kept as Kept
      if (memories.length > 0) repos[repo] = [...memories]
    }
    return { repos }
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    const writes = [...written].map(
      ([key, kept]): Write => ({
        table: 'key-value',
        collection: 'memory',
        key,
        value: kept.memories.length === 0 ? null : kept,
      }),
    )
    return {
      writes,
      onCommitted: () => {
        for (const [repo, kept] of written) if (this.#newest.get(repo) === kept) this.#newest.delete(repo)
      },
    }
  }

  #stored(repo: string): Kept | undefined {
    // Only this class writes to the shelf.
    return this.#ports.keyValues.get('memory', repo) as Kept | undefined
  }

  #set(repo: string, memories: readonly RepoMemory[]): void {
    const kept = { memories }
    this.#newest.set(repo, kept)
    this.#toWrite.set(repo, kept)
    this.#ports.requestCommit()
  }
}

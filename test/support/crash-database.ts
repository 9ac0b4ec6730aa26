/**
 * A database that keeps only flushed commits.
 *
 * Commits wait until the test flushes them, one by one and in order. A crash keeps an arbitrary prefix of the commits
 * in flight, as a real disk may, and never settles a promise of the crashed process.
 */
import type { ActorSnapshot, KeyValueCollection, Write } from '../../core/ports/store.ts'
import type { Run } from '../../protocol/run.ts'

interface InFlight {
  readonly writes: readonly Write[]
  readonly done: () => void
  readonly fail: (error: Error) => void
}

export class CrashDatabase {
  readonly snapshotTable = new Map<string, Map<string, ActorSnapshot>>()
  readonly runs = new Map<string, Run>()
  readonly keyValueTable = new Map<KeyValueCollection, Map<string, object>>()
  /** The chunks of lines as they were written, by run. */
  readonly events = new Map<string, { readonly first: number; readonly lines: string }[]>()
  #inFlight: InFlight[] = []
  commits = 0

  readonly snapshots = {
    get: (kind: string, key: string) => this.snapshotTable.get(kind)?.get(key),
    all: (kind: string): Iterable<readonly [string, ActorSnapshot]> =>
      [...(this.snapshotTable.get(kind) ?? [])].sort(),
    kinds: () => [...this.snapshotTable.keys()],
  }

  commit = (writes: readonly Write[]): Promise<void> => {
    this.commits++
    // Copied through JSON, as a disk would do: later changes must not affect an earlier write.
    const copy = JSON.parse(JSON.stringify(writes)) as Write[]
    return new Promise((done, fail) => this.#inFlight.push({ writes: copy, done, fail }))
  }

  get inFlight(): number {
    return this.#inFlight.length
  }

  flush(): void {
    const first = this.#inFlight.shift()
    if (first === undefined) return
    this.#apply(first.writes)
    first.done()
  }

  /** Acknowledges a commit without writing it: a fault that the tests must detect. */
  acknowledgeUnwritten(): void {
    this.#inFlight.shift()?.done()
  }

  break(reason: string): void {
    this.#inFlight.shift()?.fail(new Error(reason))
  }

  crash(keep: number): void {
    for (const lucky of this.#inFlight.slice(0, keep)) this.#apply(lucky.writes)
    this.#inFlight = []
  }

  #apply(writes: readonly Write[]): void {
    for (const write of writes) this.#put(write)
  }

  #put(write: Write): void {
    switch (write.table) {
      case 'snapshot':
        replace(collectionIn(this.snapshotTable, write.kind), write.key, write.record)
        break
      case 'run':
        replace(this.runs, write.id, write.run)
        break
      case 'key-value':
        replace(collectionIn(this.keyValueTable, write.collection), write.key, write.value)
        break
      case 'events': {
        const { runId, first } = write
        const lines = Buffer.from(write.lines).toString()
        this.events.set(runId, [...(this.events.get(runId) ?? []), { first, lines }])
      }
    }
  }
}

function collectionIn<K, T>(collections: Map<K, Map<string, T>>, name: K): Map<string, T> {
  const collection = collections.get(name) ?? new Map<string, T>()
  collections.set(name, collection)
  return collection
}

function replace<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key)
  else map.set(key, value)
}

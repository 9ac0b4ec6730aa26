/** Queries over the maps of the in-memory database. All results are copies. */
import type {
  ActorSnapshot,
  KeyList,
  KeyValueCollection,
  KeyValues,
  RunQuery,
  RunRecords,
  Snapshots,
} from '../../core/ports.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'

export class MemoryRunRecords implements RunRecords {
  readonly #runs: ReadonlyMap<string, Run>

  constructor(runs: ReadonlyMap<string, Run>) {
    this.#runs = runs
  }

  get(id: string): Run | undefined {
    return structuredClone(this.#runs.get(id))
  }

  list(query: RunQuery): Run[] {
    const found = [...this.#runs.values()]
      .filter((run) => matches(run, query))
      .sort((a, b) => (a.id < b.id ? 1 : -1))
    return structuredClone(found.slice(0, query.limit))
  }

  hasDamaged(): boolean {
    return false
  }

  count(status?: RunStatus): number {
    if (status === undefined) return this.#runs.size
    return [...this.#runs.values()].filter((run) => run.status === status).length
  }
}

function matches(run: Run, { before, status, ticket }: RunQuery): boolean {
  if (before !== undefined && run.id >= before) return false
  if (status !== undefined && !status.includes(run.status)) return false
  return ticket === undefined || run.ticket.id === ticket || run.ticket.identifier === ticket
}

export function memorySnapshots(
  snapshots: ReadonlyMap<string, ReadonlyMap<string, ActorSnapshot>>,
): Snapshots {
  return {
    get: (kind, key) => structuredClone(snapshots.get(kind)?.get(key)),
    all: function* (kind) {
      const records = snapshots.get(kind) ?? new Map<string, ActorSnapshot>()
      for (const key of [...records.keys()].sort()) {
        const record = records.get(key)
        if (record !== undefined) yield [key, structuredClone(record)]
      }
    },
    kinds: () => [...snapshots.keys()].sort(),
  }
}

export function memoryKeyValues(
  collections: ReadonlyMap<KeyValueCollection, ReadonlyMap<string, object>>,
): KeyValues & KeyList {
  const keys: KeyList['keys'] = (collection, { after, until } = {}) =>
    [...(collections.get(collection)?.keys() ?? [])]
      .filter((key) => (after === undefined || key > after) && (until === undefined || key < until))
      .sort()
  const get: KeyValues['get'] = (collection, key) => structuredClone(collections.get(collection)?.get(key))
  return {
    get,
    keys,
    all: function* (collection, between) {
      for (const key of keys(collection, between)) {
        const value = get(collection, key)
        if (value !== undefined) yield [key, value]
      }
    },
  }
}

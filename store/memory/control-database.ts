/**
 * The control database in memory. Commits of one turn of the event loop are applied together at its end, and are
 * invisible until then.
 *
 * Tests can simulate a full or broken disk at any moment (`fill`, `drain`, `breakDown`); the database then behaves
 * like the real one.
 */
import { NO_DAMAGE } from '../../core/damage.ts'
import type {
  ActorSnapshot,
  Cancel,
  Clock,
  ControlDatabase,
  KeyList,
  KeyValueCollection,
  KeyValues,
  RunRecords,
  Snapshots,
  StoreState,
  Write,
} from '../../core/ports.ts'
import type { Run } from '../../protocol/run.ts'
import { StoreBroken, StoreClosed } from '../errors.ts'
import { requireWholeLines } from '../event-order.ts'
import { MemoryEventLogs } from './event-logs.ts'
import { MemoryRunRecords, memoryKeyValues, memorySnapshots } from './queries.ts'

interface MemoryCommit {
  readonly writes: readonly Write[]
  resolve(): void
  reject(error: unknown): void
}

export class MemoryControlDatabase implements ControlDatabase {
  readonly #clock: Clock
  readonly #snapshots = new Map<string, Map<string, ActorSnapshot>>()
  readonly #runs = new Map<string, Run>()
  readonly #keyValues = new Map<KeyValueCollection, Map<string, object>>()
  readonly #events: MemoryEventLogs
  readonly #listeners = new Set<(state: StoreState) => void>()
  #waiting: MemoryCommit[] = []
  #scheduled = false
  #state: StoreState = { is: 'ready' }
  #closed = false
  readonly damage = NO_DAMAGE
  readonly snapshots: Snapshots
  readonly runs: RunRecords
  readonly keyValues: KeyValues & KeyList

  /** `events`: receives the events of commits. */
  constructor(clock: Clock, events = new MemoryEventLogs()) {
    this.#clock = clock
    this.#events = events
    this.keyValues = memoryKeyValues(this.#keyValues)
    this.snapshots = memorySnapshots(this.#snapshots)
    this.runs = new MemoryRunRecords(this.#runs)
  }

  commit(writes: readonly Write[]): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#state.is === 'broken') return reject(new StoreBroken(this.#state.reason))
      if (this.#closed) return reject(new StoreClosed('the store is closed'))
      this.#waiting.push({ writes: writes.map(copyOf), resolve, reject })
      this.#schedule()
    })
  }

  state(): StoreState {
    return this.#state
  }

  onState(listener: (state: StoreState) => void): Cancel {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Does nothing, because this store ends with the process. */
  async backup(): Promise<void> {}

  /** Simulates a full disk: commits wait. */
  fill(reason = 'no space left on the disk'): void {
    this.#setState({ is: 'degraded', reason })
  }

  /** Ends the simulated full disk: waiting commits are applied at the end of this turn. */
  drain(): void {
    this.#setState({ is: 'ready' })
    this.#schedule()
  }

  /** Simulates a broken disk, or a take-over by another process: new and waiting commits reject. */
  breakDown(reason = 'the disk failed', how: { readonly takenOver?: true } = {}): void {
    this.#setState({ is: 'broken', reason, ...how })
    for (const commit of this.#waiting.splice(0)) commit.reject(new StoreBroken(reason))
  }

  async close(): Promise<void> {
    if (this.#state.is === 'ready') this.#applyWaiting()
    this.#closed = true
    for (const commit of this.#waiting.splice(0))
      commit.reject(new StoreClosed('the store closed while its disk was full'))
  }

  #schedule(): void {
    if (this.#scheduled || this.#state.is !== 'ready' || this.#waiting.length === 0) return
    this.#scheduled = true
    this.#clock.endOfTick(() => {
      this.#scheduled = false
      if (this.#state.is === 'ready') this.#applyWaiting()
    })
  }

  #applyWaiting(): void {
    const commits = this.#waiting.splice(0).filter((commit) => this.#apply(commit))
    for (const commit of commits) commit.resolve()
  }

  /** Applies all writes of a commit, or rejects it. */
  #apply({ writes, reject }: MemoryCommit): boolean {
    try {
      this.#events.check(writes.filter((write) => write.table === 'events'))
    } catch (error) {
      reject(error)
      return false
    }
    for (const write of writes) this.#put(write)
    return true
  }

  #put(write: Write): void {
    switch (write.table) {
      case 'snapshot':
        replace(collectionIn(this.#snapshots, write.kind), write.key, write.record)
        break
      case 'run':
        replace(this.#runs, write.id, write.run)
        if (write.run === null) this.#snapshots.get('run')?.delete(write.id)
        break
      case 'key-value':
        replace(collectionIn(this.#keyValues, write.collection), write.key, write.value)
        break
      case 'events':
        this.#events.add(write)
        break
    }
  }

  #setState(state: StoreState): void {
    const same = this.#state.is === state.is
    this.#state = state
    if (!same) for (const listener of this.#listeners) listener(state)
  }
}

/** Copies a write, so that later changes of the caller's objects have no effect. */
function copyOf(write: Write): Write {
  if (write.table !== 'events') return structuredClone(write)
  requireWholeLines(write, write.lines)
  return { ...write, lines: Uint8Array.from(write.lines) }
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

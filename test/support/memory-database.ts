/**
 * The control database in memory. Commits of one turn of the event loop are applied together at its end, and are
 * invisible until then.
 *
 * Tests can simulate a full or broken disk at any moment (`fill`, `drain`, `breakDown`); the database then behaves
 * like the real one.
 */
import { NO_DAMAGE } from '../../core/damage.ts'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type {
  ActorSnapshot,
  ControlDatabase,
  EventBatches,
  EventLogs,
  EventQuery,
  KeyList,
  KeyValueCollection,
  KeyValues,
  RunQuery,
  RunRecords,
  Snapshots,
  StoreState,
  Write,
} from '../../core/ports/store.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import { StoreBroken, StoreClosed } from '../../store/errors.ts'
import {
  type EventsWrite,
  requireNextIndex,
  requireRunId,
  requireWholeLines,
} from '../../store/event-order.ts'

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
    for (const commit of this.#waiting.splice(0)) commit.reject(new StoreClosed('closed with a full disk'))
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

// ---- what it holds -------------------------------------------------------------------------------------------------

/** Queries over the maps of the in-memory database. All results are copies. */
class MemoryRunRecords implements RunRecords {
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

  damagedOf(): readonly string[] {
    return []
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

function memorySnapshots(snapshots: ReadonlyMap<string, ReadonlyMap<string, ActorSnapshot>>): Snapshots {
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

function memoryKeyValues(
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

/** Event logs in memory, as lists of the chunks that commits brought. */
export class MemoryEventLogs implements EventLogs {
  readonly #logs = new Map<string, EventsWrite[]>()
  #closed = false

  begin(_runId: string): void {}

  nextIndex(runId: string): number {
    this.#requireOpen()
    return this.#next(runId)
  }

  storedBytes(runId: string): number {
    this.#requireOpen()
    return (this.#logs.get(runId) ?? []).reduce((sum, { lines }) => sum + lines.length, 0)
  }

  async *read(
    runId: string,
    { after = -1, before = Number.POSITIVE_INFINITY, limit = Number.POSITIVE_INFINITY }: EventQuery = {},
  ): EventBatches {
    requireRunId(runId)
    this.#requireOpen()
    let left = limit
    for (const { first, count, lines } of [...(this.#logs.get(runId) ?? [])]) {
      if (left <= 0) return
      const found = Buffer.from(lines)
        .toString()
        .split('\n')
        .slice(Math.max(0, after + 1 - first), Math.min(count, Math.max(0, before - first)))
      left -= found.length
      if (found.length > 0) yield left < 0 ? found.slice(0, left) : found
    }
  }

  async findDamage(): Promise<void> {}

  async remove(runId: string): Promise<void> {
    requireRunId(runId)
    this.#requireOpen()
    this.#logs.delete(runId)
  }

  close(): void {
    this.#closed = true
  }

  /** Called by the database before a commit. Throws when a write would leave a gap or repeat an index. */
  check(writes: readonly EventsWrite[]): void {
    const next = new Map<string, number>()
    for (const { runId, first, count } of writes) {
      requireNextIndex(runId, first, next.get(runId) ?? this.#next(runId))
      next.set(runId, first + count)
    }
  }

  /** Called by the database after all writes of the commit are checked. */
  add(write: EventsWrite): void {
    const log = this.#logs.get(write.runId)
    if (log === undefined) this.#logs.set(write.runId, [write])
    else log.push(write)
  }

  #next(runId: string): number {
    const last = this.#logs.get(runId)?.at(-1)
    return last === undefined ? 0 : last.first + last.count
  }

  #requireOpen(): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
  }
}

/**
 * The ledger in plain maps. Commits of one turn land together at its end; until then nobody can read them.
 *
 * Tests can make it full or broken at any moment (`fill`, `drain`, `breakDown`); it then behaves as the real one.
 */
import type {
  Cancel,
  Clock,
  Ledger,
  LifeRecord,
  LifeShelf,
  RunQuery,
  RunShelf,
  StoreState,
  Write,
} from '../../core/ports.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import { StoreBroken, StoreClosed } from '../failures.ts'

interface Commit {
  readonly writes: readonly Write[]
  resolve(): void
  reject(error: Error): void
}

export class VolatileLedger implements Ledger {
  readonly #clock: Clock
  readonly #lives = new Map<string, Map<string, LifeRecord>>()
  readonly #runs = new Map<string, Run>()
  readonly #listeners = new Set<(state: StoreState) => void>()
  #waiting: Commit[] = []
  #scheduled = false
  #state: StoreState = { is: 'ready' }
  #closed = false
  readonly lives: LifeShelf
  readonly runs: RunShelf

  constructor(clock: Clock) {
    this.#clock = clock
    this.lives = shelfOfLives(this.#lives)
    this.runs = new VolatileRuns(this.#runs)
  }

  commit(writes: readonly Write[]): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#state.is === 'broken') return reject(new StoreBroken(this.#state.reason))
      if (this.#closed) return reject(new StoreClosed('the store is closed'))
      this.#waiting.push({ writes: structuredClone(writes), resolve, reject })
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

  /** There is nothing to copy to: what this store holds ends with the process anyway. */
  async backup(): Promise<void> {}

  /** From now on the disk is full: commits wait. */
  fill(reason = 'no room left on the disk'): void {
    this.#become({ is: 'degraded', reason })
  }

  /** There is room again: what waited lands at the end of this turn. */
  drain(): void {
    this.#become({ is: 'ready' })
    this.#schedule()
  }

  /** From now on the disk is broken: commits reject, those that wait too. */
  breakDown(reason = 'the disk failed'): void {
    this.#become({ is: 'broken', reason })
    for (const commit of this.#waiting.splice(0)) commit.reject(new StoreBroken(reason))
  }

  async close(): Promise<void> {
    if (this.#state.is === 'ready') this.#land()
    this.#closed = true
    for (const commit of this.#waiting.splice(0))
      commit.reject(new StoreClosed('the store closed while its disk was full'))
  }

  #schedule(): void {
    if (this.#scheduled || this.#state.is !== 'ready' || this.#waiting.length === 0) return
    this.#scheduled = true
    this.#clock.endOfTick(() => {
      this.#scheduled = false
      if (this.#state.is === 'ready') this.#land()
    })
  }

  #land(): void {
    const commits = this.#waiting.splice(0)
    for (const { writes } of commits) for (const write of writes) this.#apply(write)
    for (const commit of commits) commit.resolve()
  }

  #apply(write: Write): void {
    if (write.table === 'run') return void replace(this.#runs, write.id, write.run)
    const kind = this.#lives.get(write.kind) ?? new Map<string, LifeRecord>()
    this.#lives.set(write.kind, kind)
    replace(kind, write.key, write.record)
  }

  #become(state: StoreState): void {
    const same = this.#state.is === state.is
    this.#state = state
    if (!same) for (const listener of this.#listeners) listener(state)
  }
}

class VolatileRuns implements RunShelf {
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

function shelfOfLives(lives: ReadonlyMap<string, ReadonlyMap<string, LifeRecord>>): LifeShelf {
  return {
    get: (kind, key) => structuredClone(lives.get(kind)?.get(key)),
    all: function* (kind) {
      const records = lives.get(kind) ?? new Map<string, LifeRecord>()
      for (const key of [...records.keys()].sort()) {
        const record = records.get(key)
        if (record !== undefined) yield [key, structuredClone(record)]
      }
    },
    kinds: () => [...lives.keys()].sort(),
  }
}

function replace<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key)
  else map.set(key, value)
}

/**
 * A ledger that keeps only what was flushed.
 *
 * Commits wait until the test flushes them, one by one and in order. A crash keeps an arbitrary prefix of what was
 * in flight, as a real disk may, and never settles a promise of the life before.
 */
import type { LifeRecord, Write } from '../../core/ports.ts'

interface InFlight {
  readonly writes: readonly Write[]
  readonly done: () => void
  readonly fail: (error: Error) => void
}

export class CrashLedger {
  readonly disk = new Map<string, Map<string, LifeRecord>>()
  #inFlight: InFlight[] = []
  commits = 0

  readonly lives = {
    get: (kind: string, key: string) => this.disk.get(kind)?.get(key),
    all: (kind: string): Iterable<readonly [string, LifeRecord]> => [...(this.disk.get(kind) ?? [])].sort(),
    kinds: () => [...this.disk.keys()],
  }

  commit = (writes: readonly Write[]): Promise<void> => {
    this.commits++
    // Through text and back, as a disk would: what is written later must not change what was written now.
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

  /** Says it is on disk before it is: the lie that the tests must notice. */
  lie(): void {
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
    for (const write of writes) {
      if (write.table !== 'life') continue
      const shelf = this.disk.get(write.kind) ?? new Map<string, LifeRecord>()
      if (write.record === null) shelf.delete(write.key)
      else shelf.set(write.key, write.record)
      this.disk.set(write.kind, shelf)
    }
  }
}

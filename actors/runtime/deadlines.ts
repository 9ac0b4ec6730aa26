/**
 * Every deadline of every life, in one heap with one real timer.
 *
 * A deadline is an instant on the wall clock, because it must mean the same after a restart. Overdue ones fire in the
 * order of their instants. Moving one back costs nothing until its old place comes up: the entry then sinks to its
 * new place instead of firing.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { popFrom, pushOn } from './heap.ts'

/** The longest single sleep. Bounds how late a deadline can fire when the wall clock jumps forward meanwhile. */
const SLEEP_MS_MAX = 60_000

interface Entry<K> {
  readonly key: K
  readonly name: string
  /** When it is due; undefined once cancelled or fired. */
  due: number | undefined
  /** Where it sits in the heap: never later than `due`. */
  place: number
  readonly order: number
}

export class Deadlines<K> {
  readonly #clock: Clock
  readonly #fire: (key: K, name: string, at: number) => void
  readonly #heap: Entry<K>[] = []
  readonly #byKey = new Map<K, Map<string, Entry<K>>>()
  #order = 0
  #sleeping: { readonly until: number; readonly wake: Cancel } | undefined
  #stopped = false
  #tidyAt = 64

  constructor(clock: Clock, fire: (key: K, name: string, at: number) => void) {
    this.#clock = clock
    this.#fire = fire
  }

  set(key: K, name: string, at: number): void {
    const mine = this.#byKey.get(key) ?? new Map<string, Entry<K>>()
    const known = mine.get(name)
    if (known !== undefined && at >= known.place) {
      known.due = at
      return
    }
    if (known !== undefined) known.due = undefined
    const entry: Entry<K> = { key, name, due: at, place: at, order: this.#order++ }
    mine.set(name, entry)
    this.#byKey.set(key, mine)
    pushOn(this.#heap, entry, before)
    this.#tidy()
    this.#sleep()
  }

  cancel(key: K, name: string): void {
    const mine = this.#byKey.get(key)
    const entry = mine?.get(name)
    if (mine === undefined || entry === undefined) return
    entry.due = undefined
    mine.delete(name)
    if (mine.size === 0) this.#byKey.delete(key)
    this.#tidy()
  }

  cancelAll(key: K): void {
    for (const entry of this.#byKey.get(key)?.values() ?? []) entry.due = undefined
    this.#byKey.delete(key)
    this.#tidy()
  }

  /** How many are pending; the heap may hold a bounded number of dead entries beside them. */
  get size(): number {
    let pending = 0
    for (const mine of this.#byKey.values()) pending += mine.size
    return pending
  }

  stop(): void {
    this.#stopped = true
    this.#sleeping?.wake()
    this.#sleeping = undefined
  }

  #sleep(): void {
    const first = this.#heap[0]
    if (this.#stopped || first === undefined) return
    const now = this.#clock.now()
    const until = Math.min(Math.max(first.place, now), now + SLEEP_MS_MAX)
    if (this.#sleeping !== undefined && this.#sleeping.until <= until && this.#sleeping.until > now) return
    this.#sleeping?.wake()
    this.#sleeping = { until, wake: this.#clock.after(until - now, () => this.#wake()) }
  }

  #wake(): void {
    this.#sleeping = undefined
    const now = this.#clock.now()
    // What is set while these fire waits for the next time: a life that sets one in the past must not hold the rest up.
    const youngest = this.#order
    for (
      let first = this.#heap[0];
      first !== undefined && first.place <= now && first.order < youngest && !this.#stopped;
      first = this.#heap[0]
    ) {
      popFrom(this.#heap, before)
      if (first.due === undefined) continue
      if (first.due > now) {
        first.place = first.due
        pushOn(this.#heap, first, before)
        continue
      }
      const due = first.due
      this.#forget(first)
      this.#fire(first.key, first.name, due)
    }
    this.#sleep()
  }

  #forget(entry: Entry<K>): void {
    entry.due = undefined
    const mine = this.#byKey.get(entry.key)
    if (mine?.get(entry.name) === entry) mine.delete(entry.name)
    if (mine?.size === 0) this.#byKey.delete(entry.key)
  }

  /** Looks at the heap each time it has doubled, and drops what was cancelled: years of cancelling do not grow it. */
  #tidy(): void {
    if (this.#heap.length < this.#tidyAt) return
    const alive = this.#heap.filter((entry) => entry.due !== undefined)
    this.#heap.length = 0
    for (const entry of alive) pushOn(this.#heap, entry, before)
    this.#tidyAt = Math.max(64, this.#heap.length * 2)
  }
}

function before<K>(a: Entry<K>, b: Entry<K>): boolean {
  return a.place < b.place || (a.place === b.place && a.order < b.order)
}

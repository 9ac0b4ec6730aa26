/**
 * Deadlines keeps every deadline of every key in one heap with one timer.
 *
 * A deadline is an instant of the given clock (the wall clock for actors, so that it means the same after a restart).
 * Overdue deadlines fire in the order of their instants. Moving a deadline to a later instant only changes its entry;
 * the heap moves the entry when its old instant comes.
 */
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import { popFromHeap, pushToHeap } from './heap.ts'

/** The longest single timer. Bounds how late a deadline fires when the wall clock jumps forward meanwhile. */
const TIMER_MS_MAX = 60_000

interface DeadlineEntry<K> {
  readonly key: K
  readonly name: string
  /** The instant at which the deadline fires; undefined once cancelled or fired. */
  due: number | undefined
  /** The instant by which the heap sorts this entry: never later than `due`. */
  sortKey: number
  readonly order: number
}

export class Deadlines<K> {
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #onDue: (key: K, name: string, at: number) => void
  readonly #heap: DeadlineEntry<K>[] = []
  readonly #byKey = new Map<K, Map<string, DeadlineEntry<K>>>()
  #order = 0
  #timer: { readonly until: number; readonly cancel: Cancel } | undefined
  #stopped = false
  #dropCancelledAtLength = 64

  constructor(clock: Pick<Clock, 'now' | 'after'>, onDue: (key: K, name: string, at: number) => void) {
    this.#clock = clock
    this.#onDue = onDue
  }

  set(key: K, name: string, at: number): void {
    const ownEntries = this.#byKey.get(key) ?? new Map<string, DeadlineEntry<K>>()
    const known = ownEntries.get(name)
    if (known !== undefined && at >= known.sortKey) {
      known.due = at
      return
    }
    if (known !== undefined) known.due = undefined
    const entry: DeadlineEntry<K> = { key, name, due: at, sortKey: at, order: this.#order++ }
    ownEntries.set(name, entry)
    this.#byKey.set(key, ownEntries)
    pushToHeap(this.#heap, entry, isBefore)
    this.#dropCancelled()
    this.#scheduleTimer()
  }

  cancel(key: K, name: string): void {
    const ownEntries = this.#byKey.get(key)
    const entry = ownEntries?.get(name)
    if (ownEntries === undefined || entry === undefined) return
    entry.due = undefined
    ownEntries.delete(name)
    if (ownEntries.size === 0) this.#byKey.delete(key)
    this.#dropCancelled()
  }

  cancelAll(key: K): void {
    for (const entry of this.#byKey.get(key)?.values() ?? []) entry.due = undefined
    this.#byKey.delete(key)
    this.#dropCancelled()
  }

  /** How many deadlines are pending. The heap may hold a bounded number of cancelled entries beside them. */
  get size(): number {
    let pending = 0
    for (const ownEntries of this.#byKey.values()) pending += ownEntries.size
    return pending
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #scheduleTimer(): void {
    const first = this.#heap[0]
    if (this.#stopped || first === undefined) return
    const now = this.#clock.now()
    const until = Math.min(Math.max(first.sortKey, now), now + TIMER_MS_MAX)
    if (this.#timer !== undefined && this.#timer.until <= until && this.#timer.until > now) return
    this.#timer?.cancel()
    this.#timer = { until, cancel: this.#clock.after(until - now, () => this.#fireDue()) }
  }

  #fireDue(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    // Deadlines set while these fire wait for the next timer: one set in the past must not starve the others.
    const firstNewOrder = this.#order
    for (
      let first = this.#heap[0];
      first !== undefined && first.sortKey <= now && first.order < firstNewOrder && !this.#stopped;
      first = this.#heap[0]
    ) {
      popFromHeap(this.#heap, isBefore)
      if (first.due === undefined) continue
      if (first.due > now) {
        first.sortKey = first.due
        pushToHeap(this.#heap, first, isBefore)
        continue
      }
      const due = first.due
      this.#forget(first)
      this.#onDue(first.key, first.name, due)
    }
    this.#scheduleTimer()
  }

  #forget(entry: DeadlineEntry<K>): void {
    entry.due = undefined
    const ownEntries = this.#byKey.get(entry.key)
    if (ownEntries?.get(entry.name) === entry) ownEntries.delete(entry.name)
    if (ownEntries?.size === 0) this.#byKey.delete(entry.key)
  }

  /** Drops cancelled entries each time the heap has doubled, so that it does not grow over the years. */
  #dropCancelled(): void {
    if (this.#heap.length < this.#dropCancelledAtLength) return
    const pending = this.#heap.filter((entry) => entry.due !== undefined)
    this.#heap.length = 0
    for (const entry of pending) pushToHeap(this.#heap, entry, isBefore)
    this.#dropCancelledAtLength = Math.max(64, this.#heap.length * 2)
  }
}

function isBefore<K>(a: DeadlineEntry<K>, b: DeadlineEntry<K>): boolean {
  return a.sortKey < b.sortKey || (a.sortKey === b.sortKey && a.order < b.order)
}

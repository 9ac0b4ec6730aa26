/**
 * BlockerIndex finds what waits for a ticket, without a search through everything that might.
 *
 * Each entry names the tickets that it waits for as `blockedBy` does, by id or by identifier.
 */
import type { TrackedTicket } from '../ports.ts'
import type { TicketsById } from './blockers.ts'

const NONE: readonly string[] = []

export class BlockerIndex {
  readonly #namesOf = new Map<string, readonly string[]>()
  readonly #waiting = new Map<string, Set<string>>()

  /** Replaces the names that the entry waits for. */
  set(key: string, names: readonly string[]): void {
    const before = this.#namesOf.get(key) ?? NONE
    if (
      before === names ||
      (before.length === names.length && before.every((name, at) => name === names[at]))
    )
      return
    this.delete(key)
    if (names.length === 0) return
    this.#namesOf.set(key, names)
    for (const name of names) {
      const waiting = this.#waiting.get(name)
      if (waiting === undefined) this.#waiting.set(name, new Set([key]))
      else waiting.add(key)
    }
  }

  delete(key: string): void {
    for (const name of this.#namesOf.get(key) ?? NONE) {
      const waiting = this.#waiting.get(name)
      waiting?.delete(key)
      if (waiting?.size === 0) this.#waiting.delete(name)
    }
    this.#namesOf.delete(key)
  }

  /** The keys of the entries that wait for a ticket of this name. */
  waitingFor(name: string): Iterable<string> {
    return this.#waiting.get(name) ?? NONE
  }
}

/**
 * Returns the names of the changed tickets, and of those that wait for one of them, directly or through others: a cycle
 * is shown to everything that waits behind it.
 *
 * @param index the tickets of the listing by their ids
 */
export function findAffectedNames(
  changed: Iterable<TrackedTicket>,
  listed: TicketsById,
  index: BlockerIndex,
): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { ticket } of changed) names.add(ticket.id).add(ticket.identifier)
  // A set that grows while it is iterated is iterated to its new end.
  for (const name of names)
    for (const id of index.waitingFor(name)) {
      const waiting = listed.get(id)
      if (waiting !== undefined) names.add(id).add(waiting.ticket.identifier)
    }
  return names
}

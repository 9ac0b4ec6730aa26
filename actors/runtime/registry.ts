/**
 * Who is alive, by kind and key.
 *
 * The host keeps its own books: children spawned by a parent cost the parent time and memory for each, and a system
 * with ten thousand of them makes every stop slow.
 */
import type { LiveActor } from './live-actor.ts'

export class Registry {
  readonly #kinds = new Map<string, Map<string, LiveActor>>()

  add(life: LiveActor): void {
    const kin = this.#kinds.get(life.kind.name) ?? new Map<string, LiveActor>()
    kin.set(life.key, life)
    this.#kinds.set(life.kind.name, kin)
  }

  get(kind: string, key: string): LiveActor | undefined {
    return this.#kinds.get(kind)?.get(key)
  }

  remove(life: LiveActor): void {
    const kin = this.#kinds.get(life.kind.name)
    if (kin?.get(life.key) === life) kin.delete(life.key)
  }

  *all(): Iterable<LiveActor> {
    for (const kin of this.#kinds.values()) yield* kin.values()
  }

  of(kind: string): Iterable<LiveActor> {
    return this.#kinds.get(kind)?.values() ?? []
  }

  keys(kind: string): Iterable<string> {
    return this.#kinds.get(kind)?.keys() ?? []
  }

  count(): ReadonlyMap<string, number> {
    return new Map([...this.#kinds].map(([kind, kin]) => [kind, kin.size]))
  }
}

/**
 * ActorRegistry holds the live actors by kind and key.
 *
 * xstate's own registry of children is not used: each child costs its parent time and memory, and with ten thousand
 * children every stop becomes slow.
 */
import type { LiveActor } from './live-actor.ts'

export class ActorRegistry {
  readonly #kinds = new Map<string, Map<string, LiveActor>>()

  add(actor: LiveActor): void {
    const actorsByKey = this.#kinds.get(actor.kind.name) ?? new Map<string, LiveActor>()
    actorsByKey.set(actor.key, actor)
    this.#kinds.set(actor.kind.name, actorsByKey)
  }

  get(kind: string, key: string): LiveActor | undefined {
    return this.#kinds.get(kind)?.get(key)
  }

  remove(actor: LiveActor): void {
    const actorsByKey = this.#kinds.get(actor.kind.name)
    if (actorsByKey?.get(actor.key) === actor) actorsByKey.delete(actor.key)
  }

  *all(): Iterable<LiveActor> {
    for (const actorsByKey of this.#kinds.values()) yield* actorsByKey.values()
  }

  of(kind: string): Iterable<LiveActor> {
    return this.#kinds.get(kind)?.values() ?? []
  }

  keys(kind: string): Iterable<string> {
    return this.#kinds.get(kind)?.keys() ?? []
  }

  count(): ReadonlyMap<string, number> {
    return new Map([...this.#kinds].map(([kind, actorsByKey]) => [kind, actorsByKey.size]))
  }
}

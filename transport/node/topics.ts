/** `Topics` keeps the subscribers of each topic of one listener. */
export class Topics<Subscriber> {
  readonly #subscribers = new Map<string, Set<Subscriber>>()

  add(topic: string, subscriber: Subscriber): void {
    const known = this.#subscribers.get(topic)
    if (known === undefined) this.#subscribers.set(topic, new Set([subscriber]))
    else known.add(subscriber)
  }

  remove(topic: string, subscriber: Subscriber): void {
    const known = this.#subscribers.get(topic)
    known?.delete(subscriber)
    if (known?.size === 0) this.#subscribers.delete(topic)
  }

  subscribersOf(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic) ?? []
  }
}

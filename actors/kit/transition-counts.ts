/** How many transitions each kind has made. The meters hear of it once a cut: telling them costs more than a transition. */
import type { Meters } from '../../core/ports.ts'

export class TransitionCounts {
  readonly #kinds = new Map<string, { taken: number; told: number }>()

  add(kind: string): void {
    const counts = this.#kinds.get(kind)
    if (counts === undefined) this.#kinds.set(kind, { taken: 1, told: 0 })
    else counts.taken++
  }

  tell(meters: Meters): void {
    for (const [kind, counts] of this.#kinds) {
      if (counts.taken === counts.told) continue
      meters.count('actor_transitions_total', { kind }, counts.taken - counts.told)
      counts.told = counts.taken
    }
  }
}

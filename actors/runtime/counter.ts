/**
 * Counter counts events by one label and reports the sums to the meters from time to time: a report for each event
 * would cost more than the event itself.
 */
import type { MeterName, Meters } from '../../core/ports/log.ts'

export class Counter {
  readonly #name: MeterName
  readonly #label: string
  readonly #values = new Map<string, { counted: number; reported: number }>()

  constructor(name: MeterName, label: string) {
    this.#name = name
    this.#label = label
  }

  add(value: string): void {
    const counts = this.#values.get(value)
    if (counts === undefined) this.#values.set(value, { counted: 1, reported: 0 })
    else counts.counted++
  }

  report(meters: Meters): void {
    for (const [value, counts] of this.#values) {
      if (counts.counted === counts.reported) continue
      meters.count(this.#name, { [this.#label]: value }, counts.counted - counts.reported)
      counts.reported = counts.counted
    }
  }
}

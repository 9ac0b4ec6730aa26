/** Runs that have just ended: they stay in their place for a moment, with their new glyph, before they move. */

import { signal } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { isPhase } from './flow.ts'

const STAY_MS = 2_000

export const isInProgress = ({ status }: Pick<Run, 'status'>): boolean => isPhase(status)

export class LeavingRuns {
  readonly ids = signal<ReadonlySet<string>>(new Set())
  #inProgress: ReadonlySet<string> = new Set()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()

  /** Takes over the records, whenever they change. */
  update(runs: ReadonlyMap<string, Run>): void {
    const before = this.#inProgress
    const now = new Set<string>()
    for (const run of runs.values()) if (isInProgress(run)) now.add(run.id)
    this.#inProgress = now
    const left = [...before].filter((id) => {
      const run = runs.get(id)
      return run !== undefined && hasEnded(run)
    })
    if (left.length > 0) this.#keep(left)
  }

  #keep(left: readonly string[]): void {
    this.ids.value = new Set([...this.ids.value, ...left])
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.ids.value = new Set([...this.ids.value].filter((id) => !left.includes(id)))
    }, STAY_MS)
    this.#timers.add(timer)
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.ids.value = new Set()
  }
}

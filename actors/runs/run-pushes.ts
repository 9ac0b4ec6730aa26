/**
 * `run-updated`, for whoever watches: at once when a run changes, and at a bounded pace when it changes faster.
 *
 * Told only of what is on disk. The last state always goes out, however fast the ones before it came.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { RUN_PUSH_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface RunPushesPorts {
  readonly clock: Clock
  readonly hasSubscribers: () => boolean
  /** As people should see it. */
  readonly push: (run: Run) => void
}

interface RecentPush {
  /** Changed since it was told of. */
  latest: Run | undefined
  readonly cancel: Cancel
}

export class RunPushes implements CommitParticipant {
  readonly #ports: RunPushesPorts
  #changed = new Map<string, Run>()
  /** Told of a moment ago. */
  readonly #recent = new Map<string, RecentPush>()

  constructor(ports: RunPushesPorts) {
    this.#ports = ports
  }

  addChanged(run: Run): void {
    if (this.#ports.hasSubscribers()) this.#changed.set(run.id, run)
  }

  contribute(): CommitContribution | undefined {
    if (this.#changed.size === 0) return undefined
    const changed = this.#changed
    this.#changed = new Map()
    return {
      writes: [],
      onCommitted: () => {
        for (const run of changed.values()) this.publish(run)
      },
    }
  }

  /** For a run that is on disk as it is. */
  publish(run: Run): void {
    const recent = this.#recent.get(run.id)
    if (recent !== undefined) recent.latest = run
    else this.#publishNow(run)
  }

  /** Runs that were told of a moment ago. */
  get size(): number {
    return this.#recent.size
  }

  stop(): void {
    for (const { cancel } of this.#recent.values()) cancel()
    this.#recent.clear()
  }

  #publishNow(run: Run): void {
    const cancel = this.#ports.clock.after(RUN_PUSH_MS, () => {
      const latest = this.#recent.get(run.id)?.latest
      this.#recent.delete(run.id)
      if (latest !== undefined) this.#publishNow(latest)
    })
    this.#recent.set(run.id, { latest: undefined, cancel })
    this.#ports.push(run)
  }
}

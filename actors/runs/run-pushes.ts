/**
 * `run-updated`, for whoever watches: at once when a run changes, and at a bounded pace when it changes faster.
 *
 * Told only of what is on disk. The last state always goes out, however fast the ones before it came.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { RUN_PUSH_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface RunPushPorts {
  readonly clock: Clock
  readonly anybody: () => boolean
  /** As people should see it. */
  readonly push: (run: Run) => void
}

interface Recent {
  /** Changed since it was told of. */
  latest: Run | undefined
  readonly wake: Cancel
}

export class RunPushes implements CommitParticipant {
  readonly #ports: RunPushPorts
  #changed = new Map<string, Run>()
  /** Told of a moment ago. */
  readonly #recent = new Map<string, Recent>()

  constructor(ports: RunPushPorts) {
    this.#ports = ports
  }

  changed(run: Run): void {
    if (this.#ports.anybody()) this.#changed.set(run.id, run)
  }

  contribute(): CommitContribution | undefined {
    if (this.#changed.size === 0) return undefined
    const changed = this.#changed
    this.#changed = new Map()
    return {
      writes: [],
      onCommitted: () => {
        for (const run of changed.values()) this.tell(run)
      },
    }
  }

  /** For a run that is on disk as it is. */
  tell(run: Run): void {
    const recent = this.#recent.get(run.id)
    if (recent !== undefined) recent.latest = run
    else this.#tellNow(run)
  }

  /** Runs that were told of a moment ago. */
  get size(): number {
    return this.#recent.size
  }

  stop(): void {
    for (const { wake } of this.#recent.values()) wake()
    this.#recent.clear()
  }

  #tellNow(run: Run): void {
    const wake = this.#ports.clock.after(RUN_PUSH_MS, () => {
      const latest = this.#recent.get(run.id)?.latest
      this.#recent.delete(run.id)
      if (latest !== undefined) this.#tellNow(latest)
    })
    this.#recent.set(run.id, { latest: undefined, wake })
    this.#ports.push(run)
  }
}

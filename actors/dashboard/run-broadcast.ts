/**
 * RunBroadcast publishes changed runs to dashboards as `run-updated`: at once, then at most once per run in `RUN_PUSH_MS`.
 *
 * Only states on disk are published. The last state of a run is always published, even when earlier ones are skipped.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { RUN_PUSH_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface RunBroadcastPorts {
  readonly clock: Clock
  readonly hasSubscribers: () => boolean
  /** Publishes the run as people see it, with its wait reason. */
  readonly push: (run: Run) => void
}

interface RecentPush {
  /** The state to publish next, when the run has changed since the last push. */
  latest: Run | undefined
  readonly cancel: Cancel
}

export class RunBroadcast implements CommitParticipant {
  readonly #ports: RunBroadcastPorts
  #changed = new Map<string, Run>()
  /** Runs that were published within the last `RUN_PUSH_MS`. */
  readonly #recent = new Map<string, RecentPush>()

  constructor(ports: RunBroadcastPorts) {
    this.#ports = ports
  }

  /** A dashboard that connects before the commit is on disk has read the state before it, so the change counts for it. */
  addChanged(run: Run): void {
    this.#changed.set(run.id, run)
  }

  contribute(): CommitContribution | undefined {
    if (this.#changed.size === 0) return undefined
    const changed = this.#changed
    this.#changed = new Map()
    return {
      writes: [],
      onCommitted: () => {
        if (!this.#ports.hasSubscribers()) return
        for (const run of changed.values()) this.publish(run)
      },
    }
  }

  /** Publishes a run. The caller guarantees that its state is on disk. */
  publish(run: Run): void {
    const recent = this.#recent.get(run.id)
    if (recent !== undefined) recent.latest = run
    else this.#publishNow(run)
  }

  /** How many runs were published within the last `RUN_PUSH_MS`. */
  get size(): number {
    return this.#recent.size
  }

  /** Drops the states that were to be published later. */
  dropLater(): void {
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

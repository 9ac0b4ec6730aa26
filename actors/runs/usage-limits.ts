/**
 * UsageLimits remembers the usage limit that a run has met last.
 *
 * The events of a run hold the same, but its log is long. The memory is empty after a restart.
 */
import type { UsageLimitEvent } from '../../core/attention/facts.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'

export class UsageLimits {
  /** By run id, the oldest first. */
  readonly byRun = new Map<string, UsageLimitEvent>()

  record(event: UsageLimitEvent): void {
    this.byRun.delete(event.runId)
    this.byRun.set(event.runId, event)
    for (const oldest of this.byRun.keys()) {
      if (this.byRun.size <= ATTENTION_RUNS_MAX) return
      this.byRun.delete(oldest)
    }
  }

  forget(runId: string): void {
    this.byRun.delete(runId)
  }

  get size(): number {
    return this.byRun.size
  }
}

/**
 * PullConflicts remembers which pull requests had conflicts when the code host was asked about them last.
 *
 * The host asks when a person opens a pull request or a follow-up reads it. The memory is empty after a restart.
 */
import type { PullDetailFacts } from '../../core/provider-ports.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'

/** The value of `mergeableState` that every code host gives for conflicts. */
const HAS_CONFLICTS = 'dirty'

export class PullConflicts {
  /** Since when, by the address of the pull request; the oldest first. */
  readonly since = new Map<string, string>()

  /** Returns whether the answer changed what is known. */
  record({ url, mergeableState }: Pick<PullDetailFacts, 'url' | 'mergeableState'>, at: string): boolean {
    if (mergeableState !== HAS_CONFLICTS) return this.since.delete(url)
    if (this.since.has(url)) return false
    const [oldest] = this.since.keys()
    if (oldest !== undefined && this.since.size >= ATTENTION_RUNS_MAX) this.since.delete(oldest)
    this.since.set(url, at)
    return true
  }

  /** A follow-up has brought the pull request up to date, or tried to. */
  forget(url: string): void {
    this.since.delete(url)
  }
}

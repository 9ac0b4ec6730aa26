/**
 * EndedRuns keeps the newest run of each ticket while it has ended and may need a person.
 *
 * A ticket with a newer run, or with a run that is queued again, is left out. The number of runs is bounded: the runs
 * that ended first are dropped.
 */
import { mayNeedAttention } from '../../core/attention/collect-attention.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'

export class EndedRuns {
  /** By ticket id, the one that changed first in front. */
  readonly #runs = new Map<string, Run>()

  /** @param newestFirst runs with an actor and without */
  load(newestFirst: readonly Run[]): void {
    const seen = new Set<string>()
    const newest = newestFirst.filter(({ ticket }) => !seen.has(ticket.id) && seen.add(ticket.id))
    for (const run of newest.toReversed()) this.update(run)
  }

  /** A run that has not ended takes the place of the earlier runs of its ticket. */
  update(run: Run): void {
    const known = this.#runs.get(run.ticket.id)
    // The record of an older run may still change, because its pull request is polled.
    if (known !== undefined && known.id > run.id && isTerminal(run.status)) return
    this.#runs.delete(run.ticket.id)
    if (!mayNeedAttention(run)) return
    this.#runs.set(run.ticket.id, run)
    const [oldest] = this.#runs.keys()
    if (oldest !== undefined && this.#runs.size > ATTENTION_RUNS_MAX) this.#runs.delete(oldest)
  }

  all(): readonly Run[] {
    return [...this.#runs.values()]
  }

  get size(): number {
    return this.#runs.size
  }
}

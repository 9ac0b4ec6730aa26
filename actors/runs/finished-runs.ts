/**
 * Runs at rest: records without a life, and the few things that are still written to them.
 *
 * The newest word on a run may be on its way to the disk: a life that just ended, a change made here. It is kept here
 * until it has landed, so that whoever decides on a run never decides on an old record.
 */
import type { ControlDatabase } from '../../core/ports.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export class FinishedRuns implements CommitParticipant {
  readonly #runs: ControlDatabase['runs']
  readonly #requestCommit: () => void
  /** Ended or changed, and not landed yet. */
  readonly #uncommitted = new Map<string, Run>()
  #toWrite = new Map<string, Run>()
  #ended = new Map<string, Run>()

  constructor(runs: ControlDatabase['runs'], requestCommit: () => void) {
    this.#runs = runs
    this.#requestCommit = requestCommit
  }

  /** The newest word, be it on disk or not. Only for runs without a life. */
  latest(id: string): Run | undefined {
    return this.#uncommitted.get(id) ?? this.#runs.get(id)
  }

  /** Of the ends that are not on disk yet, the latest of this ticket's runs. */
  latestEndOf(ticketId: string): string | undefined {
    let latest: string | undefined
    for (const { ticket, finishedAt } of this.#uncommitted.values()) {
      if (ticket.id !== ticketId || finishedAt === undefined) continue
      if (latest === undefined || finishedAt > latest) latest = finishedAt
    }
    return latest
  }

  /** Its life has just ended, and writes this with the next cut. */
  recordEnd(run: Run): void {
    this.#uncommitted.set(run.id, run)
    this.#ended.set(run.id, run)
  }

  /** A run that is woken is its life's to write. */
  release(id: string): void {
    this.#uncommitted.delete(id)
    this.#toWrite.delete(id)
  }

  update(run: Run): void {
    this.#uncommitted.set(run.id, run)
    this.#toWrite.set(run.id, run)
    this.#requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0 && this.#ended.size === 0) return undefined
    const changed = this.#toWrite
    const ended = this.#ended
    this.#toWrite = new Map()
    this.#ended = new Map()
    return {
      writes: [...changed].map(([id, run]) => ({ table: 'run', id, run })),
      onCommitted: () => {
        for (const runs of [changed, ended])
          for (const [id, run] of runs) if (this.#uncommitted.get(id) === run) this.#uncommitted.delete(id)
      },
    }
  }
}

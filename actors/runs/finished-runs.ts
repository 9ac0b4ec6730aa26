/**
 * FinishedRuns reads and updates the records of runs without an actor.
 *
 * The latest record of a run may not be on disk yet, because its actor just ended or the record was just changed here.
 * FinishedRuns keeps such records in memory until they are on disk, so that no decision is based on an old record.
 */
import { readOr } from '../../core/damage.ts'
import type { ControlDatabase } from '../../core/ports/store.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export class FinishedRuns implements CommitParticipant {
  readonly #runs: ControlDatabase['runs']
  readonly #requestCommit: () => void
  readonly #onUpdated: (run: Run, before: Run | undefined) => void
  /** Records of ended or changed runs that are not on disk yet. */
  readonly #uncommitted = new Map<string, Run>()
  #toWrite = new Map<string, Run>()
  #ended = new Map<string, Run>()

  /** @param onUpdated called with each record that is changed here, before it is on disk */
  constructor(
    runs: ControlDatabase['runs'],
    requestCommit: () => void,
    onUpdated: (run: Run, before: Run | undefined) => void,
  ) {
    this.#runs = runs
    this.#requestCommit = requestCommit
    this.#onUpdated = onUpdated
  }

  /** Returns the latest record, on disk or not. Only for runs without an actor. Throws DamagedRecord. */
  latest(id: string): Run | undefined {
    return this.#uncommitted.get(id) ?? this.#runs.get(id)
  }

  /** The same for callers that no person waits for: a damaged record, which people see in the list of damage, is none. */
  readable(id: string): Run | undefined {
    return readOr(
      () => this.latest(id),
      () => undefined,
    )
  }

  /** Returns the latest `finishedAt` among the ticket's runs whose end is not on disk yet. */
  latestEndOf(ticketId: string): string | undefined {
    let latest: string | undefined
    for (const { ticket, finishedAt } of this.#uncommitted.values()) {
      if (ticket.id !== ticketId || finishedAt === undefined) continue
      if (latest === undefined || finishedAt > latest) latest = finishedAt
    }
    return latest
  }

  /** Keeps the record of a run whose actor has just ended and writes the record with the next commit. */
  recordEnd(run: Run): void {
    this.#uncommitted.set(run.id, run)
    this.#ended.set(run.id, run)
  }

  /** Drops the record of a run that has an actor again: from now on only the actor writes it. */
  release(id: string): void {
    this.#uncommitted.delete(id)
    this.#toWrite.delete(id)
  }

  update(run: Run): void {
    const before = this.latest(run.id)
    this.#uncommitted.set(run.id, run)
    this.#toWrite.set(run.id, run)
    this.#requestCommit()
    this.#onUpdated(run, before)
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

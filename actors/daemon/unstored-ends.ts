/**
 * UnstoredEnds knows the runs whose execution has ended in memory only, for example while the disk is full.
 *
 * A daemon that dies before the end is on disk reads the outputs from the sandbox once more, so the sandbox must stay.
 */
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export class UnstoredEnds implements CommitParticipant {
  readonly #runsByLease = new Map<string, string>()
  readonly #onStored: () => void

  constructor(onStored: () => void) {
    this.#onStored = onStored
  }

  add(leaseId: string, runId: string): void {
    this.#runsByLease.set(leaseId, runId)
  }

  has(runId: string): boolean {
    for (const ended of this.#runsByLease.values()) if (ended === runId) return true
    return false
  }

  contribute(): CommitContribution | undefined {
    const leaseIds = [...this.#runsByLease.keys()]
    if (leaseIds.length === 0) return undefined
    const onCommitted = () => {
      for (const leaseId of leaseIds) this.#runsByLease.delete(leaseId)
      this.#onStored()
    }
    return { writes: [], onCommitted }
  }
}

/**
 * EndedLeases stores how each lease ended, so that late frames of a worker get the right answer, also after a restart.
 *
 * A late frame of a completed lease may be acknowledged only when the completion is on disk. While the end is being
 * written it counts as `uncommitted` and gets no answer, because the acknowledgement follows the commit anyway. An end
 * is forgotten after `ENDED_LEASES_KEPT_MS`.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import { ENDED_LEASES_KEPT_MS } from '../../protocol/limits.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { LeaseContext, LeaseEnd } from './lease.machine.ts'

interface EndedLease {
  readonly runId: string
  readonly workerId: string
  readonly how: LeaseEnd
  readonly at: number
}

/** How many old records are deleted with one commit. */
const PRUNED_PER_COMMIT_MAX = 1_000

export class EndedLeases implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  #toWrite = new Map<string, EndedLease>()
  readonly #uncommitted = new Map<string, EndedLease>()
  #toPrune: string[] = []
  #now = 0

  constructor(keyValues: KeyValues, requestCommit: () => void) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
  }

  recordEnd({ id, runId, workerId, end }: LeaseContext, now: number): void {
    const ended: EndedLease = { runId, workerId, how: end ?? 'lost', at: now }
    this.#toWrite.set(id, ended)
    this.#uncommitted.set(id, ended)
    this.#requestCommit()
  }

  /** Returns how a lease ended. `uncommitted`: the end is not on disk yet, its effects are about to run. */
  endOf(leaseId: string): LeaseEnd | 'uncommitted' | undefined {
    if (this.#uncommitted.has(leaseId)) return 'uncommitted'
    return this.#stored(leaseId)?.how
  }

  /** Returns the run of an ended lease; undefined when the lease ended too long ago. */
  runOf(leaseId: string): string | undefined {
    return (this.#uncommitted.get(leaseId) ?? this.#stored(leaseId))?.runId
  }

  #stored(leaseId: string): EndedLease | undefined {
    // The cast holds because only this class writes to the collection.
    return this.#keyValues.get('ended-lease', leaseId) as EndedLease | undefined
  }

  /** Deletes old ends. A lease id begins with its time of creation, so newer leases need not be read. */
  prune(now: number): void {
    this.#now = now
    const keptSince = Math.max(0, now - ENDED_LEASES_KEPT_MS)
    const until = `ls-${keptSince.toString(16).padStart(12, '0')}`
    for (const [key, ended] of this.#keyValues.all('ended-lease', { until })) {
      // The run of a lease may take as long as an end is kept.
      if ((ended as EndedLease).at >= keptSince) continue
      this.#toPrune.push(key)
      if (this.#toPrune.length >= PRUNED_PER_COMMIT_MAX) break
    }
    if (this.#toPrune.length > 0) this.#requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0 && this.#toPrune.length === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    const writes: Write[] = [...written].map(([key, value]) => ({
      table: 'key-value',
      collection: 'ended-lease',
      key,
      value,
    }))
    const pruned = this.#toPrune
    this.#toPrune = []
    for (const key of pruned) writes.push({ table: 'key-value', collection: 'ended-lease', key, value: null })
    return {
      writes,
      onCommitted: () => {
        for (const id of written.keys()) this.#uncommitted.delete(id)
        if (pruned.length >= PRUNED_PER_COMMIT_MAX) this.prune(this.#now)
      },
    }
  }
}

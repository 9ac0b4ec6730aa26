/**
 * EndedLeases stores how each lease ended, so that late frames of a worker get the right answer, also after a restart,
 * and whether the costs of its execution are settled.
 *
 * A late frame of a completed lease may be acknowledged only when the completion is on disk. While the end is being
 * written it counts as `uncommitted` and gets no answer, because the acknowledgement follows the commit anyway. An end
 * is forgotten after `ENDED_LEASES_KEPT_MS`.
 *
 * An end is no row of the lease's actor: a start restores every such row, and must not read all leases that have ended.
 * One row would save less than a hundredth of a run's processor time (`bench/results.md`).
 */
import { readOr } from '../../core/damage.ts'
import type { KeyValues, Write } from '../../core/ports/store.ts'
import type { LeaseShare } from '../../core/run/settle-costs.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { LeaseContext, LeaseEnd } from './lease.machine.ts'

/** How long the end of a lease is remembered, for its late frames. */
export const ENDED_LEASES_KEPT_MS = 7 * 24 * 3_600_000

export interface EndedLease {
  readonly runId: string
  readonly workerId: string
  readonly how: LeaseEnd
  readonly at: number
  /** The costs that the lease had reported; without entries when it completed. Absent: unknown. */
  readonly share?: LeaseShare
}

/** How many old records are deleted with one commit. */
const PRUNED_PER_COMMIT_MAX = 1_000

export class EndedLeases implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  readonly #onSettled: (leaseId: string, workerId: string) => void
  #toWrite = new Map<string, EndedLease>()
  readonly #uncommitted = new Map<string, EndedLease>()
  /** By lease id, the worker of a settlement that is not on disk yet. */
  readonly #settled = new Map<string, string>()
  #toSettle = new Map<string, readonly CostEntry[]>()
  #toPrune: string[] = []
  readonly #trustedClock: Pick<TrustedClock, 'now'>

  /** @param onSettled called when the settlement of a lease's costs is on disk */
  constructor(
    keyValues: KeyValues,
    requestCommit: () => void,
    trustedClock: Pick<TrustedClock, 'now'>,
    onSettled: (leaseId: string, workerId: string) => void,
  ) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
    this.#trustedClock = trustedClock
    this.#onSettled = onSettled
  }

  /** @param share the lease's part of its run's costs, if the run knows the lease */
  recordEnd(
    { id, runId, workerId, end }: Pick<LeaseContext, 'id' | 'runId' | 'workerId' | 'end'>,
    now: number,
    share?: LeaseShare,
  ): void {
    const how = end ?? 'lost'
    const known = share === undefined || how !== 'completed' ? share : { ...share, entries: [] }
    const ended: EndedLease = {
      runId,
      workerId,
      how,
      at: now,
      ...(known === undefined ? {} : { share: known }),
    }
    this.#toWrite.set(id, ended)
    this.#uncommitted.set(id, ended)
    this.#requestCommit()
  }

  /** Records with the next commit that the worker has reported these costs of this lease. */
  recordSettlement(leaseId: string, workerId: string, costs: readonly CostEntry[]): void {
    this.#settled.set(leaseId, workerId)
    this.#toSettle.set(leaseId, costs)
    this.#requestCommit()
  }

  /** Returns whether everything about the lease is on disk. */
  isStored(leaseId: string): boolean {
    return !this.#uncommitted.has(leaseId) && !this.#settled.has(leaseId)
  }

  /** Returns whether the worker has reported all costs of this lease; the record may not be on disk yet. */
  isSettled(leaseId: string): boolean {
    // The value says nothing: a damaged one too says that costs are settled, which must not be counted twice.
    const isStored = readOr(
      () => this.#keyValues.get('settled-lease', leaseId) !== undefined,
      () => true,
    )
    return this.#settled.has(leaseId) || isStored
  }

  /** The costs of a settlement that is on disk; undefined for none, and for one of an earlier version. */
  settledCosts(leaseId: string): readonly CostEntry[] | undefined {
    return readOr(
      () =>
        (this.#keyValues.get('settled-lease', leaseId) as { costs?: readonly CostEntry[] } | undefined)
          ?.costs,
      () => undefined,
    )
  }

  /** The record of an ended lease, on disk or not; undefined when the lease ended too long ago. */
  find(leaseId: string): EndedLease | undefined {
    return this.#uncommitted.get(leaseId) ?? this.#stored(leaseId)
  }

  /** Returns how a lease ended. `uncommitted`: the end is not on disk yet, its effects are about to run. */
  endOf(leaseId: string): LeaseEnd | 'uncommitted' | undefined {
    if (this.#uncommitted.has(leaseId)) return 'uncommitted'
    return this.#stored(leaseId)?.how
  }

  /** Returns the run of an ended lease; undefined when the lease ended too long ago. */
  runOf(leaseId: string): string | undefined {
    return this.find(leaseId)?.runId
  }

  /** Whether the record of the lease's end is damaged. */
  isUnreadable(leaseId: string): boolean {
    return readOr(
      () => this.#keyValues.get('ended-lease', leaseId) === null,
      () => true,
    )
  }

  #stored(leaseId: string): EndedLease | undefined {
    // The cast holds because only this class writes to the collection. With a damaged end the lease is unknown.
    return readOr(
      () => this.#keyValues.get('ended-lease', leaseId) as EndedLease | undefined,
      () => undefined,
    )
  }

  /** Deletes old ends. A lease id begins with its time of creation, so newer leases need not be read. */
  prune(): void {
    const now = this.#trustedClock.now()
    if (now === undefined) return
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
    if (this.#toWrite.size + this.#toSettle.size + this.#toPrune.length === 0) return undefined
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
    for (const key of pruned)
      for (const collection of ['ended-lease', 'settled-lease'] as const)
        writes.push({ table: 'key-value', collection, key, value: null })
    const settled = this.#toSettle
    this.#toSettle = new Map()
    for (const [key, costs] of settled)
      writes.push({ table: 'key-value', collection: 'settled-lease', key, value: { costs } })
    return {
      writes,
      onCommitted: () => {
        for (const id of written.keys()) this.#uncommitted.delete(id)
        for (const id of settled.keys()) this.#onSettlementStored(id)
        if (pruned.length >= PRUNED_PER_COMMIT_MAX) this.prune()
      },
    }
  }

  #onSettlementStored(leaseId: string): void {
    const workerId = this.#settled.get(leaseId)
    this.#settled.delete(leaseId)
    if (workerId !== undefined) this.#onSettled(leaseId, workerId)
  }
}

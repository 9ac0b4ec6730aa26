/**
 * Settlements keeps the costs and the usage of executions whose lease ended before the host had them, and reports them
 * until the host acknowledges.
 *
 * A settlement is written in the commit that ends its execution, so it survives a crash of the daemon. It is sent once
 * it is on disk, on every new connection, and its costs with every heartbeat. The host counts the costs of a lease once.
 */
import type { Log } from '../../core/ports/log.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import {
  StoredCollection,
  type StoredCollectionPorts,
  type WrittenValues,
} from '../runtime/stored-collection.ts'
import type { HostSender } from './host-sender.ts'

/** Executions whose costs a worker keeps for a host that does not acknowledge them. */
const SETTLEMENTS_KEPT_MAX = 256

export interface SettlementsPorts extends StoredCollectionPorts {
  readonly log: Log
  readonly hostSender: Pick<HostSender, 'send'>
}

/** As stored on disk. */
interface Settlement {
  readonly costs: readonly CostEntry[]
  readonly usage: readonly UsageSnapshot[]
}

export class Settlements implements CommitParticipant {
  readonly #ports: SettlementsPorts
  readonly #settlements: StoredCollection<Settlement>
  /** Ids of leases whose settlement is on disk. */
  readonly #stored = new Set<string>()

  constructor(ports: SettlementsPorts) {
    this.#ports = ports
    this.#settlements = new StoredCollection('settlement', ports, {
      onCommitted: (written) => this.#onCommitted(written),
    })
  }

  /** Finds the settlements of earlier processes. */
  restore(): void {
    for (const [leaseId] of this.#settlements.listDurable()) this.#stored.add(leaseId)
  }

  /** How many leases the host has not acknowledged yet. */
  get size(): number {
    return this.#stored.size
  }

  add(leaseId: string, costs: readonly CostEntry[], usage: readonly UsageSnapshot[]): void {
    this.#write(leaseId, { costs, usage })
    this.#dropOldest()
  }

  acknowledge(leaseId: string): void {
    if (this.#stored.has(leaseId)) this.#write(leaseId, null)
  }

  /** Sends everything again, on a new connection. */
  sendAll(): void {
    for (const leaseId of this.#stored) this.#send(leaseId, true)
  }

  /** Repeats what the host has not acknowledged on this connection. */
  repeat(): void {
    for (const leaseId of this.#stored) this.#send(leaseId, false)
  }

  #send(leaseId: string, withUsage: boolean): void {
    const { hostSender } = this.#ports
    const settlement = this.#settlements.get(leaseId)
    if (settlement === undefined) return
    if (withUsage)
      for (const snapshot of settlement.usage)
        hostSender.send({ type: 'run-usage-snapshot', endedLeaseId: leaseId, snapshot })
    hostSender.send({ type: 'lease-costs', leaseId, costs: [...settlement.costs] })
  }

  /** A host that never acknowledges, because it is older, must not fill this disk. */
  #dropOldest(): void {
    const [oldest] = this.#stored
    if (oldest === undefined || this.#stored.size < SETTLEMENTS_KEPT_MAX) return
    this.#ports.log.warn(
      { lease: oldest },
      'dropped the costs of an execution that the host never acknowledged',
    )
    this.#write(oldest, null)
  }

  #write(leaseId: string, settlement: Settlement | null): void {
    if (settlement === null) this.#stored.delete(leaseId)
    this.#settlements.set(leaseId, settlement)
  }

  contribute(): CommitContribution | undefined {
    return this.#settlements.contribute()
  }

  #onCommitted(written: WrittenValues<Settlement>): void {
    for (const [leaseId, settlement] of written) {
      if (settlement === null) continue
      this.#stored.add(leaseId)
      this.#send(leaseId, true)
    }
  }
}

/**
 * UnleasedUsage archives usage snapshots that arrive outside the numbered frames of a lease: after a person's terminal
 * session, and of an execution whose lease has ended.
 *
 * Only snapshots of sessions that the worker booted for a person, and of leases whose costs the worker owes, are kept;
 * otherwise a worker could overwrite usage of others. A session exports its subagents at the same time, so a bounded
 * number of snapshots waits to be stored. A person's session is accounted before its snapshot replaces the archived
 * one, which still says how far usage was accounted. Delivery is best effort, but the usage of a lease that has arrived
 * is stored before its costs are settled, because the worker forgets both with the acknowledgement.
 */
import type { UsageKey } from '../../core/ports/store.ts'
import { no } from '../../core/result.ts'
import { USAGE_NOT_KEPT, usageToArchive } from '../../core/run/usage.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { HostContext } from '../host-context.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'

/**
 * Usage snapshots outside any lease that are written to disk at once; others wait, and those beyond the limits are
 * dropped.
 */
const UNLEASED_USAGE_SNAPSHOTS_AT_ONCE = 8
const UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX = 256
const UNLEASED_USAGE_BYTES_WAITING_MAX = 32 * 1024 * 1024

type UsageModules = Pick<ModuleViews, 'terminals' | 'leases'>

interface WaitingUsage {
  readonly workerId: string
  readonly key: UsageKey
  readonly text: string
  readonly entries: readonly UsageEntry[]
  /** The ended lease of the snapshot's execution, whose costs are reported by themselves. */
  readonly leaseId: string | undefined
}

interface UnstoredUsage {
  snapshots: number
  next: () => void
}

const NOT_ITS_SESSION = no('conflict', 'this worker did not boot such a session for a person')
const NOT_ITS_LEASE = no('conflict', 'this worker owes no costs of such a lease')

export class UnleasedUsage {
  readonly #context: HostContext
  readonly #modules: UsageModules
  readonly #waiting: WaitingUsage[] = []
  /** By lease: the snapshots of its execution that are not stored yet, and what happens then. */
  readonly #unstored = new Map<string, UnstoredUsage>()
  #waitingBytes = 0
  #storing = 0

  constructor(context: HostContext, modules: UsageModules) {
    this.#context = context
    this.#modules = modules
  }

  /** @param leaseId the ended lease of the snapshot's execution; undefined for a person's session */
  receive(worker: EnrolledWorker, snapshot: UsageSnapshot, leaseId: string | undefined): void {
    const checked = this.#check(worker, snapshot, leaseId)
    const { entries } = snapshot
    if (!checked.ok) this.#logDropped(worker.id, checked.refusal.message)
    else if (this.#isFull(checked.value.text.length)) this.#logDropped(worker.id, 'too many at once')
    else this.#enqueue({ workerId: worker.id, ...checked.value, entries, leaseId })
  }

  /** Calls back when all usage of the lease that has arrived is stored. A repeated call replaces the one before. */
  onceStored(leaseId: string, next: () => void): void {
    const unstored = this.#unstored.get(leaseId)
    if (unstored === undefined) next()
    else unstored.next = next
  }

  #check(
    worker: EnrolledWorker,
    snapshot: UsageSnapshot,
    leaseId: string | undefined,
  ): ReturnType<typeof usageToArchive> {
    const { terminals, leases } = this.#modules
    if (leaseId !== undefined)
      return leases.settlements.isOpen(worker, leaseId) ? usageToArchive(snapshot) : NOT_ITS_LEASE
    const isOpen = terminals.sessionCosts.hasSession(worker.id, snapshot.sessionId)
    return isOpen ? usageToArchive(snapshot) : NOT_ITS_SESSION
  }

  #isFull(bytes: number): boolean {
    const many = this.#waiting.length >= UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX
    return many || this.#waitingBytes + bytes > UNLEASED_USAGE_BYTES_WAITING_MAX
  }

  #enqueue(usage: WaitingUsage): void {
    this.#waiting.push(usage)
    if (usage.leaseId !== undefined) this.#countUnstored(usage.leaseId)
    this.#waitingBytes += usage.text.length
    this.#storeNext()
  }

  #countUnstored(leaseId: string): void {
    const unstored = this.#unstored.get(leaseId)
    if (unstored === undefined) this.#unstored.set(leaseId, { snapshots: 1, next: () => {} })
    else unstored.snapshots += 1
  }

  #storeNext(): void {
    if (this.#storing >= UNLEASED_USAGE_SNAPSHOTS_AT_ONCE) return
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#waitingBytes -= next.text.length
    this.#storing += 1
    void this.#store(next).finally(() => {
      this.#storing -= 1
      this.#storeNext()
      if (next.leaseId !== undefined) this.#onStored(next.leaseId)
    })
  }

  #onStored(leaseId: string): void {
    const unstored = this.#unstored.get(leaseId)
    if (unstored === undefined) return
    unstored.snapshots -= 1
    if (unstored.snapshots > 0) return
    this.#unstored.delete(leaseId)
    unstored.next()
  }

  async #store({ workerId, key, text, entries, leaseId }: WaitingUsage): Promise<void> {
    try {
      if (leaseId === undefined) await this.#modules.terminals.sessionCosts.addExport(workerId, key, entries)
      await this.#context.store.usage.replace(key, text)
    } catch (error) {
      this.#logDropped(workerId, messageOf(error))
    }
  }

  #logDropped(worker: string, reason: string): void {
    this.#context.log.warn({ worker, reason }, USAGE_NOT_KEPT)
  }
}

/**
 * UnleasedUsage accounts and archives usage snapshots that arrive outside any lease, after a person's terminal session.
 *
 * Only snapshots of sessions that the worker booted for a person are kept; otherwise a worker could overwrite usage of
 * others. A session exports its subagents at the same time, so a bounded number of snapshots waits to be stored. Each
 * is accounted before it replaces the archived one, which still says how far usage was accounted. Delivery is best
 * effort.
 */
import { isNativeError } from 'node:util/types'
import type { Log, UsageArchive, UsageKey } from '../../core/ports.ts'
import { no } from '../../core/result.ts'
import { USAGE_NOT_KEPT, usageToArchive } from '../../core/run/usage.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import {
  UNLEASED_USAGE_BYTES_WAITING_MAX,
  UNLEASED_USAGE_SNAPSHOTS_AT_ONCE,
  UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX,
} from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { SessionCosts } from '../terminals/session-costs.ts'

export interface UnleasedUsagePorts {
  readonly log: Log
  readonly usage: UsageArchive
  readonly sessionCosts: SessionCosts
}

interface WaitingUsage {
  readonly workerId: string
  readonly key: UsageKey
  readonly text: string
  readonly entries: readonly UsageEntry[]
}

const NOT_ITS_SESSION = no('conflict', 'this worker did not boot such a session for a person')

export class UnleasedUsage {
  readonly #ports: UnleasedUsagePorts
  readonly #waiting: WaitingUsage[] = []
  #waitingBytes = 0
  #storing = 0

  constructor(ports: UnleasedUsagePorts) {
    this.#ports = ports
  }

  receive(workerId: string, snapshot: UsageSnapshot): void {
    const checked = this.#check(workerId, snapshot)
    if (!checked.ok) this.#logDropped(workerId, checked.refusal.message)
    else if (this.#isFull(checked.value.text.length)) this.#logDropped(workerId, 'too many at once')
    else this.#enqueue({ workerId, ...checked.value, entries: snapshot.entries })
  }

  #check(workerId: string, snapshot: UsageSnapshot): ReturnType<typeof usageToArchive> {
    const isItsOwn = this.#ports.sessionCosts.hasSession(workerId, snapshot.sessionId)
    return isItsOwn ? usageToArchive(snapshot) : NOT_ITS_SESSION
  }

  #isFull(bytes: number): boolean {
    const many = this.#waiting.length >= UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX
    return many || this.#waitingBytes + bytes > UNLEASED_USAGE_BYTES_WAITING_MAX
  }

  #enqueue(usage: WaitingUsage): void {
    this.#waiting.push(usage)
    this.#waitingBytes += usage.text.length
    this.#storeNext()
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
    })
  }

  async #store({ workerId, key, text, entries }: WaitingUsage): Promise<void> {
    try {
      await this.#ports.sessionCosts.addExport(workerId, key, entries)
      await this.#ports.usage.replace(key, text)
    } catch (error) {
      this.#logDropped(workerId, isNativeError(error) ? error.message : String(error))
    }
  }

  #logDropped(worker: string, reason: string): void {
    this.#ports.log.warn({ worker, reason }, USAGE_NOT_KEPT)
  }
}

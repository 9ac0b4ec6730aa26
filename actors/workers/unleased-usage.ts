/**
 * Usage snapshots that come outside any lease, at the end of a person's session: best effort.
 *
 * Whoever has no lease has nothing to say but of a session that it had booted for a person; anything else is not kept,
 * or a worker could write over what others have used. A session and its subagents export in one breath, so what can't
 * be put on disk at once waits, within bounds. Each is accounted before it takes the place of what is archived, because
 * that tells what was accounted before.
 */
import { isNativeError } from 'node:util/types'
import type { Log, UsageArchive, UsageKey } from '../../core/ports.ts'
import { no } from '../../core/result.ts'
import { usageToArchive } from '../../core/run/usage.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import {
  LOOSE_USAGE_BYTES_WAITING_MAX,
  LOOSE_USAGE_SNAPSHOTS_AT_ONCE,
  LOOSE_USAGE_SNAPSHOTS_WAITING_MAX,
} from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { SessionCosts } from '../terminals/session-costs.ts'

export interface LooseUsagePorts {
  readonly log: Log
  readonly usage: UsageArchive
  readonly sessionCosts: SessionCosts
}

interface Export {
  readonly workerId: string
  readonly key: UsageKey
  readonly text: string
  readonly entries: readonly UsageEntry[]
}

const NOT_ITS_OWN = no('conflict', 'this worker had no such session booted for a person')

export class LooseUsage {
  readonly #ports: LooseUsagePorts
  readonly #waiting: Export[] = []
  #waitingBytes = 0
  #filing = 0

  constructor(ports: LooseUsagePorts) {
    this.#ports = ports
  }

  came(workerId: string, snapshot: UsageSnapshot): void {
    const usable = this.#usable(workerId, snapshot)
    if (!usable.ok) this.#notKept(workerId, usable.refusal.message)
    else if (this.#isFull(usable.value.text.length)) this.#notKept(workerId, 'too many at once')
    else this.#wait({ workerId, ...usable.value, entries: snapshot.entries })
  }

  #usable(workerId: string, snapshot: UsageSnapshot): ReturnType<typeof usageToArchive> {
    const isItsOwn = this.#ports.sessionCosts.knows(workerId, snapshot.sessionId)
    return isItsOwn ? usageToArchive(snapshot) : NOT_ITS_OWN
  }

  #isFull(bytes: number): boolean {
    const many = this.#waiting.length >= LOOSE_USAGE_SNAPSHOTS_WAITING_MAX
    return many || this.#waitingBytes + bytes > LOOSE_USAGE_BYTES_WAITING_MAX
  }

  #wait(one: Export): void {
    this.#waiting.push(one)
    this.#waitingBytes += one.text.length
    this.#next()
  }

  #next(): void {
    if (this.#filing >= LOOSE_USAGE_SNAPSHOTS_AT_ONCE) return
    const one = this.#waiting.shift()
    if (one === undefined) return
    this.#waitingBytes -= one.text.length
    this.#filing += 1
    void this.#file(one).finally(() => {
      this.#filing -= 1
      this.#next()
    })
  }

  async #file({ workerId, key, text, entries }: Export): Promise<void> {
    try {
      await this.#ports.sessionCosts.exported(workerId, key, entries)
      await this.#ports.usage.replace(key, text)
    } catch (error) {
      this.#notKept(workerId, isNativeError(error) ? error.message : String(error))
    }
  }

  #notKept(worker: string, reason: string): void {
    this.#ports.log.warn({ worker, reason }, 'a usage snapshot was not kept')
  }
}

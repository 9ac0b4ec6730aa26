/**
 * DiskReclaim asks the executor to free disk space, at the start and then 5 minutes after each attempt. Each time it names
 * to the host the sandboxes that need the host's word.
 */
import { isNativeError } from 'node:util/types'
import type { Executor } from '../../core/daemon/ports.ts'
import type { Log } from '../../core/ports.ts'
import { EXPIRED_SANDBOXES_MAX } from '../../protocol/limits.ts'
import type { HostSender } from './host-sender.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface DiskReclaimPorts {
  readonly log: Log
  readonly timers: SleepAwareTimers
  readonly executor: Pick<Executor, 'reclaim'>
  readonly hostSender: Pick<HostSender, 'send'>
  /** Whether the disk of this run must stay. */
  readonly isProtected: (runId: string) => boolean
}

const RECLAIM_MS = 5 * 60_000

export class DiskReclaim {
  readonly #ports: DiskReclaimPorts
  #isStopped = false

  constructor(ports: DiskReclaimPorts) {
    this.#ports = ports
  }

  async run(): Promise<void> {
    const { executor, hostSender, isProtected, log, timers } = this.#ports
    try {
      const expired = [...(await executor.reclaim(isProtected))]
      while (expired.length > 0)
        hostSender.send({ type: 'expired-sandboxes', sandboxes: expired.splice(0, EXPIRED_SANDBOXES_MAX) })
    } catch (error) {
      log.error(
        { reason: isNativeError(error) ? error.message : String(error) },
        'could not reclaim disk space; the next attempt follows in 5 minutes',
      )
    }
    if (!this.#isStopped) timers.in(DISK_RECLAIM_TIMER, 'again', RECLAIM_MS)
  }

  stop(): void {
    this.#isStopped = true
  }
}

/** The timer key of this class. */
export const DISK_RECLAIM_TIMER = 'reclaim'

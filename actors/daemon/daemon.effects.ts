/**
 * What the daemon's own life does to the world: go online, count what it has, let go of it, end.
 *
 * Each way to the end is bounded, so that no process that won't die and no disk that is full keeps a daemon from
 * ending; what is on disk by then is told when it is started again.
 */
import type { Log } from '../../core/ports.ts'
import type { DaemonEffect, DaemonEvent } from './daemon.machine.ts'
import type { DaemonEnd } from './daemon-dependencies.ts'
import type { Executions } from './executions.ts'
import type { HostConnection } from './host-connection.ts'
import type { ResumedSandboxes } from './resumed-sandboxes.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface DaemonPorts {
  readonly log: Log
  readonly timers: SleepAwareTimers
  readonly hostConnection: HostConnection
  readonly executions: Executions
  readonly resumedSandboxes: ResumedSandboxes
  readonly drainMsMax: number | undefined
  readonly connect: () => void
  readonly disconnect: () => void
  /** Resolves when everything that was told is on disk. */
  readonly waitForCommits: () => Promise<void>
  readonly sendDaemonEvent: (event: DaemonEvent) => void
  readonly publishCount: () => void
  readonly finish: (end: DaemonEnd) => void
}

/** How long the host may take to say that it has what is finished. */
const ACKNOWLEDGE_MS_MAX = 30_000
/** An agent that is asked to end may say what it has spent. */
const ABANDON_MS_MAX = 30_000
/** From the kill until nobody waits for processes any more. */
const KILL_MS_MAX = 10_000
const FLUSH_MS_MAX = 5_000

const STOPPED = 'the worker is being stopped'

/** The key of this room's timers. */
export const DAEMON_TIMER = 'daemon'

export function createDaemonEffects(ports: DaemonPorts): (effect: DaemonEffect) => void {
  const { resumedSandboxes, executions, timers } = ports
  const setTimeLimit = (ms: number) => timers.in(DAEMON_TIMER, 'time', ms)
  return (effect) => {
    switch (effect.type) {
      case 'daemon.go':
        ports.connect()
        return
      case 'daemon.drain':
        if (ports.drainMsMax !== undefined) setTimeLimit(ports.drainMsMax)
        return
      case 'daemon.wait for host':
        setTimeLimit(ACKNOWLEDGE_MS_MAX)
        return
      case 'daemon.hand back':
        setTimeLimit(KILL_MS_MAX)
        executions.handBackAll(effect.reason)
        resumedSandboxes.releaseAll(STOPPED)
        return
      case 'daemon.abandon':
        setTimeLimit(ABANDON_MS_MAX)
        executions.abandonAll(effect.how, effect.reason, effect.how === 'interrupt')
        resumedSandboxes.releaseAll(effect.reason)
        return
      case 'daemon.kill':
        setTimeLimit(KILL_MS_MAX)
        executions.killAll(effect.reason)
        resumedSandboxes.releaseAll(STOPPED)
        return
      case 'daemon.count':
        ports.publishCount()
        return
      case 'daemon.flush':
        setTimeLimit(FLUSH_MS_MAX)
        void flush(ports)
        return
      case 'daemon.finish':
        ports.finish(effect.end)
    }
  }
}

/** The last beat names what is still claimed: what is not, the host queues again at once. */
async function flush({
  executions,
  hostConnection,
  waitForCommits,
  disconnect,
  sendDaemonEvent,
}: DaemonPorts): Promise<void> {
  await waitForCommits()
  executions.releaseClaims()
  hostConnection.sendHeartbeat()
  disconnect()
  sendDaemonEvent({ type: 'flushed' })
}

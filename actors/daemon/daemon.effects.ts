/**
 * Carries out the effects of the daemon machine: connect, count executions, stop them, end.
 *
 * Every step towards the end has a time limit, so a process that cannot be killed or a full disk cannot keep the daemon
 * from ending. The worker reports what is on disk by then after its next start.
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
  /** Resolves when all pending transitions and frames are on disk. */
  readonly waitForCommits: () => Promise<void>
  readonly sendDaemonEvent: (event: DaemonEvent) => void
  readonly publishCount: () => void
  readonly finish: (end: DaemonEnd) => void
}

/** How long a daemon without running executions waits for the host to acknowledge their completions. */
const ACKNOWLEDGE_MS_MAX = 30_000
/** Its disk may end with it, so a worker that takes one run waits longer, for example for a host that is restarted. */
const ONLY_ACKNOWLEDGE_MS_MAX = 60 * 60_000
/** How long interrupted agents may take to report their costs. */
const ABANDON_MS_MAX = 30_000
/** From the kill until the daemon stops waiting for processes. */
const KILL_MS_MAX = 10_000
const FLUSH_MS_MAX = 5_000

const STOPPED = 'the worker is being stopped'

/** The timer key of the daemon's time limits. */
export const DAEMON_TIMER = 'daemon'

export function createDaemonEffects(ports: DaemonPorts): (effect: DaemonEffect) => void {
  const { resumedSandboxes, executions, hostConnection, timers } = ports
  const setTimeLimit = (ms: number) => timers.in(DAEMON_TIMER, 'time', ms)
  return (effect) => {
    switch (effect.type) {
      case 'daemon.connect':
        ports.connect()
        return
      case 'daemon.start drain timer':
        if (ports.drainMsMax !== undefined) setTimeLimit(ports.drainMsMax)
        return
      case 'daemon.announce end':
        hostConnection.onCapabilitiesChanged()
        return
      case 'daemon.wait for the only acknowledgement':
        setTimeLimit(ONLY_ACKNOWLEDGE_MS_MAX)
        return
      case 'daemon.wait for acknowledgements':
        setTimeLimit(ACKNOWLEDGE_MS_MAX)
        return
      case 'daemon.hand back':
        if (effect.what === 'unbegun') return executions.handBackUnbegun(effect.reason)
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

/** The last heartbeat names the leases that are still claimed; the host queues all other runs again at once. */
async function flush({
  executions,
  hostConnection,
  waitForCommits,
  disconnect,
  sendDaemonEvent,
}: DaemonPorts): Promise<void> {
  await waitForCommits()
  executions.releaseEndedClaims()
  await hostConnection.sendLastHeartbeat()
  disconnect()
  sendDaemonEvent({ type: 'flushed' })
}

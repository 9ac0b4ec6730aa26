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
import type { Line } from './host-connection.ts'
import type { BootedRoom } from './resumed-sandboxes.ts'
import type { Timers } from './timers.ts'

export interface DaemonPorts {
  readonly log: Log
  readonly timers: Timers
  readonly line: Line
  readonly executions: Executions
  readonly booted: BootedRoom
  readonly drainMsMax: number | undefined
  readonly go: () => void
  readonly hangUp: () => void
  /** Resolves when everything that was told is on disk. */
  readonly settled: () => Promise<void>
  readonly tell: (event: DaemonEvent) => void
  readonly count: () => void
  readonly finish: (end: DaemonEnd) => void
}

/** How long the host may take to say that it has what is finished. */
const REPORT_MS_MAX = 30_000
/** An agent that is asked to end may say what it has spent. */
const FORSAKEN_MS_MAX = 30_000
/** From the kill until nobody waits for processes any more. */
const KILL_MS_MAX = 10_000
const FLUSH_MS_MAX = 5_000

const STOPPED = 'the worker is being stopped'

/** The key of this room's timers. */
export const DAEMON_TIMER = 'daemon'

export function daemonEffects(ports: DaemonPorts): (effect: DaemonEffect) => void {
  const { booted, executions, timers } = ports
  const within = (ms: number) => timers.in(DAEMON_TIMER, 'time', ms)
  return (effect) => {
    switch (effect.type) {
      case 'daemon.go':
        ports.go()
        return
      case 'daemon.drain':
        if (ports.drainMsMax !== undefined) within(ports.drainMsMax)
        return
      case 'daemon.wait for host':
        within(REPORT_MS_MAX)
        return
      case 'daemon.hand back':
        within(KILL_MS_MAX)
        executions.handBack(effect.reason)
        booted.releaseAll(STOPPED)
        return
      case 'daemon.abandon':
        within(FORSAKEN_MS_MAX)
        executions.abandon(effect.how, effect.reason, effect.how === 'interrupt')
        booted.releaseAll(effect.reason)
        return
      case 'daemon.kill':
        within(KILL_MS_MAX)
        executions.kill(effect.reason)
        booted.releaseAll(STOPPED)
        return
      case 'daemon.count':
        ports.count()
        return
      case 'daemon.flush':
        within(FLUSH_MS_MAX)
        void flush(ports)
        return
      case 'daemon.finish':
        ports.finish(effect.end)
    }
  }
}

/** The last beat names what is still claimed: what is not, the host queues again at once. */
async function flush({ executions, line, settled, hangUp, tell }: DaemonPorts): Promise<void> {
  await settled()
  executions.letGo()
  line.beat()
  hangUp()
  tell({ type: 'flushed' })
}

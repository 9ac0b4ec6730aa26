/**
 * ExpiredSandboxes answers workers that ask what they may discard: sandboxes whose time is over by the host's clock. A
 * worker that gets no answer keeps its sandbox and asks again.
 */
import { mayDiscardExpired } from '../../core/run/permission.ts'
import type { ExpiredSandbox } from '../../protocol/frames.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { FinishedRuns } from '../runs/finished-runs.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { WorkerConnections } from './worker-connections.ts'

export interface ExpiredSandboxesPorts {
  readonly system: ActorSystem
  readonly connections: WorkerConnections
  readonly finishedRuns: FinishedRuns
  readonly terminals: TerminalSessions
  readonly trustedClock: TrustedClock
}

export class ExpiredSandboxes {
  readonly #ports: ExpiredSandboxesPorts

  constructor(ports: ExpiredSandboxesPorts) {
    this.#ports = ports
  }

  onFrame(workerId: string, sandboxes: readonly ExpiredSandbox[]): void {
    const { connections, terminals, trustedClock } = this.#ports
    const now = trustedClock.now()
    if (now === undefined) return
    for (const { runId, retainedUntil } of sandboxes)
      if (
        !terminals.isBooted(runId) &&
        mayDiscardExpired(this.#find(runId), { workerId, retainedUntil, now })
      )
        connections.sendToWorker(workerId, { type: 'discard', runId })
  }

  #find(runId: string) {
    const context = this.#ports.system.peek(RUN, runId)?.context as RunContext | undefined
    return context?.run ?? this.#ports.finishedRuns.latest(runId)
  }
}

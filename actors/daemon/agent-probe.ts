/**
 * AgentProbe looks every few seconds for the agents on this machine, and keeps the capabilities that the worker reports.
 *
 * Nothing waits for a probe, and the next one begins only when the last has ended: a file system that hangs neither
 * stops the daemon nor piles up probes.
 */

import { isDeepStrictEqual } from 'node:util'
import { isNativeError } from 'node:util/types'
import type { Clock, Log } from '../../core/ports.ts'
import { AGENT_PROBE_MS, AGENT_PROBE_MS_MAX } from '../../protocol/limits.ts'
import type { WorkerAgents, WorkerCapabilities } from '../../protocol/worker.ts'
import type { DaemonDependencies } from './daemon-dependencies.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface AgentProbePorts {
  readonly clock: Clock
  readonly log: Log
  readonly timers: SleepAwareTimers
  readonly capabilities: WorkerCapabilities
  readonly probeAgents?: DaemonDependencies['probeAgents']
  /** The capabilities have changed. */
  readonly onChange: () => void
}

/** The timer key of this class. */
export const AGENT_PROBE_TIMER = 'agent-probe'

export class AgentProbe {
  readonly #ports: AgentProbePorts
  #capabilities: WorkerCapabilities
  #isProbing = false
  #isStopped = false

  constructor(ports: AgentProbePorts) {
    this.#ports = ports
    this.#capabilities = ports.capabilities
  }

  get capabilities(): WorkerCapabilities {
    return this.#capabilities
  }

  /** Probes now, unless a probe is under way, and again after the interval. */
  async run(): Promise<void> {
    const { probeAgents, clock, log, timers } = this.#ports
    if (probeAgents === undefined || this.#isProbing || this.#isStopped) return
    this.#isProbing = true
    const cancelWarning = clock.after(AGENT_PROBE_MS_MAX, () =>
      log.warn(
        {},
        'looking for the agents takes long; see that the folders on the PATH of the worker answer',
      ),
    )
    try {
      this.#onProbed(await probeAgents())
    } catch (error) {
      log.error({ reason: messageOf(error) }, 'could not look for the agents')
    }
    cancelWarning()
    this.#isProbing = false
    if (!this.#isStopped) timers.in(AGENT_PROBE_TIMER, 'again', AGENT_PROBE_MS)
  }

  stop(): void {
    this.#isStopped = true
  }

  #onProbed(agents: WorkerAgents): void {
    if (this.#isStopped || isDeepStrictEqual(agents, this.#capabilities.agents)) return
    this.#capabilities = { ...this.#capabilities, agents }
    this.#ports.log.info({ agents }, 'the agents on this machine have changed')
    this.#ports.onChange()
  }
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))

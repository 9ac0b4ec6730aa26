/** The agentProbe module publishes `capabilities` when the agents on this machine have changed. */

import { isDeepStrictEqual } from 'node:util'
import { AGENT_PROBE_MS_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { WorkerAgents, WorkerCapabilities } from '../../protocol/worker.ts'
import { observeKind } from '../runtime/module.ts'
import { handleTimer, timerKind } from '../runtime/timer-kind.ts'
import { EXECUTION } from './daemon.names.ts'
import { type DaemonContext, defineDaemonModule } from './daemon-context.ts'

/** How often a worker looks for the agents on its machine. */
export const AGENT_PROBE_MS = 10_000

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly agentProbe: AgentProbe
  }
}

export const agentProbeModule = defineDaemonModule({
  name: 'agentProbe',
  create(context) {
    const agentProbe = new AgentProbe(context)
    return {
      view: agentProbe,
      onTimer: [handleTimer(AGENT_PROBE_TIMER, () => void agentProbe.run())],
      onStateChange: [
        // An agent that was removed since the last probe must not get the next run.
        observeKind(EXECUTION, ({ after }) => {
          if (after.context.outcome?.failure === 'configuration') void agentProbe.run()
        }),
      ],
      start: () => void agentProbe.run(),
      stop: () => agentProbe.stop(),
    }
  },
})

const AGENT_PROBE_TIMER = timerKind<'again'>('agent-probe')

/**
 * AgentProbe looks every few seconds for the agents on this machine, and keeps the capabilities that the worker reports.
 *
 * Nothing waits for a probe, and the next one begins only when the last has ended: a file system that hangs neither
 * stops the daemon nor piles up probes.
 */
class AgentProbe {
  readonly #context: DaemonContext
  #capabilities: WorkerCapabilities
  #isProbing = false
  #isStopped = false

  constructor(context: DaemonContext) {
    this.#context = context
    this.#capabilities = context.capabilities
  }

  get capabilities(): WorkerCapabilities {
    return this.#capabilities
  }

  /** Probes now, unless a probe is under way, and again after the interval. */
  async run(): Promise<void> {
    const { probeAgents, clock, log, timers } = this.#context
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
    if (!this.#isStopped) timers.in(AGENT_PROBE_TIMER.key(), 'again', AGENT_PROBE_MS)
  }

  stop(): void {
    this.#isStopped = true
  }

  #onProbed(agents: WorkerAgents): void {
    if (this.#isStopped || isDeepStrictEqual(agents, this.#capabilities.agents)) return
    this.#capabilities = { ...this.#capabilities, agents }
    this.#context.log.info({ agents }, 'the agents on this machine have changed')
    this.#context.publish({ view: 'capabilities' })
  }
}

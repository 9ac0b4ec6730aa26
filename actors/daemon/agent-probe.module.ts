/** The agentProbe module publishes `capabilities` when the agents on this machine have changed. */
import { AGENT_PROBE_TIMER, AgentProbe } from './agent-probe.ts'
import { EXECUTION } from './daemon.names.ts'
import { defineDaemonModule } from './daemon-context.ts'
import type { ExecutionContext } from './execution.machine.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly agentProbe: AgentProbe
  }
}

export const agentProbeModule = defineDaemonModule({
  name: 'agentProbe',
  create(context) {
    const agentProbe = new AgentProbe({
      ...context,
      onChange: () => context.publish({ view: 'capabilities' }),
    })
    return {
      view: agentProbe,
      onTimer: { [AGENT_PROBE_TIMER]: () => void agentProbe.run() },
      onStateChange: {
        // An agent that was removed since the last probe must not get the next run.
        [EXECUTION]({ after }) {
          if ((after.context as ExecutionContext).outcome?.failure === 'configuration') void agentProbe.run()
        },
      },
      start: () => void agentProbe.run(),
      stop: () => agentProbe.stop(),
    }
  },
})

/** The modules about the host: which part of the daemon handles its frames, and the connection to it. */
import { effectHandlers } from '../runtime/module.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import { defineDaemonModule } from './daemon-context.ts'
import { DispatchAdmission } from './dispatch-admission.ts'
import { type HostConnectionEffect, hostConnectionKind } from './host-connection.machine.ts'
import { HOST_CONNECTION_TIMER, HostConnection } from './host-connection.ts'
import { HostFrameRouter } from './host-frame-router.ts'
import { SharedActors } from './shared-actors.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly hostFrameRouter: HostFrameRouter
    readonly hostConnection: HostConnection
  }
}

/** The hostFrameRouter module answers dispatches and passes all other frames to the modules above it. */
export const hostFrameRouterModule = defineDaemonModule({
  name: 'hostFrameRouter',
  create(context, { frameOutbox, settlements, executions: { executions, runner }, resumedSandboxes }) {
    const shared = { ...context, outbox: frameOutbox, settlements, executions, runner, resumedSandboxes }
    const isStopping = () => !context.isServing()
    const onBegun = () => {
      if (context.once === true) context.system.send(DAEMON, DAEMON, { type: 'only run began' })
    }
    const dispatchAdmission = new DispatchAdmission({ ...shared, isStopping, onBegun })
    const sharedActors = new SharedActors({
      ...context,
      isAllowed: context.sharesActors === true,
      send: (frame) => context.hostSender.send(frame),
    })
    return {
      view: new HostFrameRouter({
        ...shared,
        dispatchAdmission,
        sharedActors,
        onTimeChange: () => context.publish({ view: 'host clock' }),
      }),
      onViewChange({ view, key }) {
        if (view === 'host connection' && key === 'down') sharedActors.stop()
      },
      stop: () => sharedActors.stop(),
    }
  },
})

/**
 * The hostConnection module connects and registers with the host. It publishes `up` and `down`, and every module
 * observes both in the order of the list: the outbox before the resumed sandboxes.
 */
export const hostConnectionModule = defineDaemonModule({
  name: 'hostConnection',
  kinds: [hostConnectionKind],
  create(context, { executions: { executions }, resumedSandboxes, agentProbe, hostFrameRouter }) {
    const { system, publish } = context
    const hostConnection = new HostConnection({
      ...context,
      capabilities: () =>
        context.isServing() ? agentProbe.capabilities : { ...agentProbe.capabilities, ending: true },
      sendConnectionEvent: (event) => void system.send(HOST_CONNECTION, HOST_CONNECTION, event),
      claims: () => executions.claims(),
      viewCount: () => resumedSandboxes.viewCount,
      onUp: () => publish({ view: 'host connection', key: 'up' }),
      onDown: () => publish({ view: 'host connection', key: 'down' }),
      hostFrameRouter,
    })
    return {
      view: hostConnection,
      effects: effectHandlers<HostConnectionEffect>({
        connection: (effect) => hostConnection.runEffect(effect),
      }),
      onTimer: { [HOST_CONNECTION_TIMER]: (_, name) => hostConnection.onTimer(name) },
      onViewChange({ view }) {
        if (view === 'capabilities') hostConnection.onCapabilitiesChanged()
      },
      stop: () => hostConnection.stop(),
    }
  },
})

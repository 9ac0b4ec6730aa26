/**
 * The modules of the worker daemon, and the list in which they are created, started, asked for their part of a commit,
 * and notified of changes. Each may use the views of those above it.
 */

import type { ActorKind } from '../runtime/actor-kind.ts'
import { effectHandlers, type ModuleDefinition, observeKind } from '../runtime/module.ts'
import { handleTimer } from '../runtime/timer-kind.ts'
import { agentProbeModule } from './agent-probe.module.ts'
import { daemonModule, diskReclaimModule } from './daemon.module.ts'
import { EXECUTION } from './daemon.names.ts'
import type { DaemonContext } from './daemon-context.ts'
import { defineDaemonModule } from './daemon-context.ts'
import { DispatchAdmission } from './dispatch-admission.ts'
import { type ExecutionEffect, executionKind } from './execution.machine.ts'
import { ExecutionLookup } from './execution-lookup.ts'
import { ExecutionRunner } from './execution-runner.ts'
import { EXECUTION_TIMER, Executions } from './executions.ts'
import { FRAME_OUTBOX_TIMER, FrameOutbox } from './frame-outbox.ts'
import { CLAIM_TIMER } from './given-up-claims.ts'
import { type HostConnectionEffect, hostConnectionKind } from './host-connection.machine.ts'
import { HOST_CONNECTION_TIMER, HostConnection } from './host-connection.ts'
import { HostFrameRouter } from './host-frame-router.ts'
import { Reports } from './reports.ts'
import { type ResumedSandboxEffect, resumedSandboxKind } from './resumed-sandbox.machine.ts'
import { ResumedSandboxes } from './resumed-sandboxes.ts'
import { Settlements } from './settlements.ts'
import { SharedActors } from './shared-actors.ts'
import { UnstoredEnds } from './unstored-ends.ts'

export interface ExecutionsView {
  readonly executions: Executions
  readonly runner: ExecutionRunner
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly frameOutbox: FrameOutbox
    readonly settlements: Settlements
    readonly executions: ExecutionsView
    readonly resumedSandboxes: ResumedSandboxes
    readonly hostFrameRouter: HostFrameRouter
    readonly hostConnection: HostConnection
  }
}

/** The frameOutbox module keeps the frames of executions until the host acknowledges them. */
export const frameOutboxModule = defineDaemonModule({
  name: 'frameOutbox',
  create(context) {
    const outbox = new FrameOutbox({ ...context, keyValues: context.database.keyValues })
    return {
      view: outbox,
      participants: [outbox],
      onTimer: [handleTimer(FRAME_OUTBOX_TIMER, (_, name) => outbox.onTimer(name))],
      onViewChange({ view }) {
        if (view === 'host connection') outbox.onConnectionChange()
      },
    }
  },
})

/** The settlements module reports what executions have spent whose lease ended before the host knew. */
export const settlementsModule = defineDaemonModule({
  name: 'settlements',
  create(context) {
    const settlements = new Settlements({ ...context, keyValues: context.database.keyValues })
    return {
      view: settlements,
      participants: [settlements],
      onRestored: () => settlements.restore(),
      onViewChange(change) {
        if (change.view === 'host connection' && change.key === 'up') settlements.sendAll()
      },
    }
  },
})

/** The executions module runs one execution for each lease, after the outbox has restored the frames of that lease. */
export const executionsModule = defineDaemonModule({
  name: 'executions',
  kinds: [executionKind],
  create(context, { frameOutbox: outbox, settlements }) {
    const { log, system } = context
    const lookup = new ExecutionLookup(system)
    const reports = new Reports(log, lookup, outbox)
    const unstoredEnds = new UnstoredEnds(() => runner.discardStored())
    const parts = { lookup, outbox, reports, unstoredEnds }
    const runner: ExecutionRunner = new ExecutionRunner(context, parts)
    const executions = new Executions(context, { ...parts, runner, settlements })
    return {
      view: { executions, runner },
      participants: [unstoredEnds],
      effects: effectHandlers<ExecutionEffect>({ execution: (effect) => executions.runEffect(effect) }),
      onStateChange: [observeKind(EXECUTION, (change) => executions.onStateChange(change))],
      onTimer: [
        handleTimer(EXECUTION_TIMER, (leaseId, name) => executions.onTimer(leaseId, name)),
        handleTimer(CLAIM_TIMER, (leaseId) => executions.onClaimTimer(leaseId)),
      ],
      // Every restored execution has opened its lease in the outbox by now.
      onRestored: () => outbox.eraseUnownedFrames(system.damagedKeysOf(EXECUTION)),
    }
  },
})

export const resumedSandboxesModule = defineDaemonModule({
  name: 'resumedSandboxes',
  kinds: [resumedSandboxKind],
  create(context, { executions: { executions, runner } }) {
    const { isServing, publish } = context
    const resumedSandboxes = new ResumedSandboxes({
      ...context,
      objection(runId) {
        if (!isServing()) return 'the worker is being stopped; try again once it is back'
        const isBusy = executions.claimsRun(runId) || runner.isOccupied(runId)
        return isBusy
          ? 'the worker still executes something of this run; try again when that has ended'
          : undefined
      },
      onChange: () => publish({ view: 'resumed sandboxes' }),
    })
    return {
      view: resumedSandboxes,
      effects: effectHandlers<ResumedSandboxEffect>({
        sandbox: (effect) => resumedSandboxes.runEffect(effect),
      }),
      onTimer: resumedSandboxes.timerHandlers,
      onViewChange(change) {
        if (change.view !== 'host connection') return
        if (change.key === 'up') resumedSandboxes.onConnectionUp()
        else resumedSandboxes.onConnectionDown()
      },
    }
  },
})

/** The hostFrameRouter module answers dispatches and passes all other frames to the modules above it. */
export const hostFrameRouterModule = defineDaemonModule({
  name: 'hostFrameRouter',
  create(context, { frameOutbox, settlements, executions, resumedSandboxes }) {
    const modules = { frameOutbox, settlements, executions, resumedSandboxes }
    const dispatchAdmission = new DispatchAdmission(context, executions.executions, resumedSandboxes)
    const sharedActors = new SharedActors({
      ...context,
      isAllowed: context.sharesActors === true,
      send: (frame) => context.hostSender.send(frame),
    })
    return {
      view: new HostFrameRouter(context, modules, dispatchAdmission, sharedActors),
      onViewChange(change) {
        if (change.view === 'host connection' && change.key === 'down') sharedActors.stop()
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
  create(context, { executions, resumedSandboxes, agentProbe, hostFrameRouter }) {
    const modules = { executions, resumedSandboxes, agentProbe, hostFrameRouter }
    const hostConnection = new HostConnection(context, modules)
    return {
      view: hostConnection,
      effects: effectHandlers<HostConnectionEffect>({
        connection: (effect) => hostConnection.runEffect(effect),
      }),
      onTimer: [handleTimer(HOST_CONNECTION_TIMER, (_, name) => hostConnection.onTimer(name))],
      onViewChange({ view }) {
        if (view === 'capabilities') hostConnection.onCapabilitiesChanged()
      },
      stop: () => hostConnection.stop(),
    }
  },
})

// ---- the list ----------------------------------------------------------------------------------------------------

export const daemonModules: readonly ModuleDefinition<DaemonContext>[] = [
  frameOutboxModule,
  settlementsModule,
  executionsModule,
  resumedSandboxesModule,
  agentProbeModule,
  hostFrameRouterModule,
  hostConnectionModule,
  daemonModule,
  diskReclaimModule,
]

/** Every kind of actor that the worker daemon knows. */
export const daemonKinds: readonly ActorKind[] = daemonModules.flatMap(({ kinds = [] }) => kinds)

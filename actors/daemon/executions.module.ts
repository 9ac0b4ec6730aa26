/** The modules about executions: the frames that they send to the host, and the executions themselves. */
import { effectHandlers } from '../runtime/module.ts'
import { EXECUTION } from './daemon.names.ts'
import { defineDaemonModule } from './daemon-context.ts'
import { type ExecutionEffect, executionKind } from './execution.machine.ts'
import { ExecutionLookup } from './execution-lookup.ts'
import { ExecutionRunner } from './execution-runner.ts'
import { Executions } from './executions.ts'
import { FRAME_OUTBOX_TIMER, FrameOutbox } from './frame-outbox.ts'
import { Reports } from './reports.ts'
import { Settlements } from './settlements.ts'
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
      onTimer: { [FRAME_OUTBOX_TIMER]: (_, name) => outbox.onTimer(name) },
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
      onViewChange({ view, key }) {
        if (view === 'host connection' && key === 'up') settlements.sendAll()
      },
    }
  },
})

/** The executions module runs one execution for each lease, after the outbox has restored the frames of that lease. */
export const executionsModule = defineDaemonModule({
  name: 'executions',
  kinds: [executionKind],
  create(context, { frameOutbox: outbox, settlements }) {
    const { log, system, publish } = context
    const onChange = () => publish({ view: 'executions' })
    const lookup = new ExecutionLookup(system)
    const reports = new Reports({ log, lookup, outbox })
    const unstoredEnds = new UnstoredEnds(() => runner.discardStored())
    const runner: ExecutionRunner = new ExecutionRunner({
      ...context,
      lookup,
      reports,
      outbox,
      unstoredEnds,
      onChange,
    })
    const ports = { lookup, outbox, reports, runner, settlements, unstoredEnds, onChange }
    const executions = new Executions({ ...context, ...ports })
    return {
      view: { executions, runner },
      participants: [unstoredEnds],
      effects: effectHandlers<ExecutionEffect>({ execution: (effect) => executions.runEffect(effect) }),
      onStateChange: { [EXECUTION]: (change) => executions.onStateChange(change) },
      onTimer: {
        lease: (key, name) => executions.onTimer(key, name),
        claim: (key) => executions.onClaimTimer(key),
      },
      // Every restored execution has opened its lease in the outbox by now.
      onRestored: () => outbox.eraseUnownedFrames(system.damagedKeysOf(EXECUTION)),
    }
  },
})

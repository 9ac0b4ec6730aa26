/** The resumed sandboxes module boots retained sandboxes for people and passes frames to their terminals. */
import { effectHandlers } from '../runtime/module.ts'
import { defineDaemonModule } from './daemon-context.ts'
import { type ResumedSandboxEffect, resumedSandboxKind } from './resumed-sandbox.machine.ts'
import { ResumedSandboxes } from './resumed-sandboxes.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly resumedSandboxes: ResumedSandboxes
  }
}

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
      onTimer: { booted: (key, name) => resumedSandboxes.onTimer(key, name) },
      onViewChange({ view, key }) {
        if (view !== 'host connection') return
        if (key === 'up') resumedSandboxes.onConnectionUp()
        else resumedSandboxes.onConnectionDown()
      },
    }
  },
})

/** The leaseShares module knows which costs of a run belong to which lease. */
import { defineHostModule } from '../host-context.ts'
import { LeaseShares } from './lease-shares.ts'
import { RUN } from './run.names.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly leaseShares: LeaseShares
  }
}

export const leaseSharesModule = defineHostModule({
  name: 'leaseShares',
  create(context, { runRecords: { eventLog, finishedRuns }, workers }) {
    const isLive = (leaseId: string) => workers.registry.lease(leaseId) !== undefined
    const shares = new LeaseShares({ ...context, finishedRuns, runEventLog: eventLog, isLive })
    return { view: shares, onStateChange: { [RUN]: (change) => shares.onRunChanged(change) } }
  },
})

/**
 * The modules of the host, in the order in which they are created, started, asked for their part of a commit, and told
 * of changes. Each may use the views of those above it.
 */
import { accountsModule } from '../accounts/module.ts'
import { commitWaitersModule } from '../api/commit-waiters.module.ts'
import { troublesModule } from '../attention/known-troubles.ts'
import { attentionModule } from '../attention/module.ts'
import { trustedClockModule } from '../clock/trusted-clock.ts'
import { dashboardModule } from '../dashboard/module.ts'
import type { HostContext } from '../host-context.ts'
import { inspectionModule } from '../inspection/inspection.ts'
import { endedLeasesModule, leasesModule } from '../leases/module.ts'
import { provisioningModule } from '../provisioning/provisioning.ts'
import { artifactUploadModule } from '../runs/artifact-upload.module.ts'
import { leaseSharesModule } from '../runs/lease-shares.ts'
import { jobsModule, memoriesModule, pullStatesModule, runRecordsModule, runsModule } from '../runs/module.ts'
import type { ActorKind } from '../runtime/actor-kind.ts'
import type { ModuleDefinition } from '../runtime/module.ts'
import { settingsModule } from '../settings/module.ts'
import { terminalsModule } from '../terminals/module.ts'
import { trackerModule } from '../tracker/module.ts'
import { localWorkerModule, schedulerModule, workerChannelModule, workersModule } from '../workers/module.ts'
import { rootKind } from './root.machine.ts'

export const hostModules: readonly ModuleDefinition<HostContext>[] = [
  settingsModule,
  commitWaitersModule,
  trustedClockModule,
  troublesModule,
  runRecordsModule,
  memoriesModule,
  workersModule,
  runsModule,
  leaseSharesModule,
  trackerModule,
  jobsModule,
  endedLeasesModule,
  leasesModule,
  terminalsModule,
  workerChannelModule,
  localWorkerModule,
  provisioningModule,
  artifactUploadModule,
  pullStatesModule,
  accountsModule,
  schedulerModule,
  dashboardModule,
  attentionModule,
  inspectionModule,
]

/** Every kind of actor that the host knows. */
export const hostKinds: readonly ActorKind[] = [rootKind, ...hostModules.flatMap(({ kinds = [] }) => kinds)]

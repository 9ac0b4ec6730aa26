/**
 * The modules of the worker daemon, in the order in which they are created, started, asked for their part of a commit,
 * and notified of changes. Each may use the views of those above it.
 */
import type { ActorKind } from '../runtime/actor-kind.ts'
import type { ModuleDefinition } from '../runtime/module.ts'
import { agentProbeModule } from './agent-probe.module.ts'
import { daemonModule, diskReclaimModule } from './daemon.module.ts'
import type { DaemonContext } from './daemon-context.ts'
import { executionsModule, frameOutboxModule, settlementsModule } from './executions.module.ts'
import { hostConnectionModule, hostFrameRouterModule } from './host-connection.module.ts'
import { resumedSandboxesModule } from './resumed-sandboxes.module.ts'

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

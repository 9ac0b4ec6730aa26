/** Every kind of life a worker daemon knows, with what happens to it when it throws. */
import type { ActorKind } from '../runtime/actor-kind.ts'
import { daemonKind } from './daemon.machine.ts'
import { executionKind } from './execution.machine.ts'
import { linkKind } from './host-connection.machine.ts'
import { bootedKind } from './resumed-sandbox.machine.ts'

export const daemonKinds: readonly ActorKind[] = [daemonKind, linkKind, executionKind, bootedKind]

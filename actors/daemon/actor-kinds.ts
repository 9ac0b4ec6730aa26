/** Every kind of life a worker daemon knows, with what happens to it when it throws. */
import type { ActorKind } from '../runtime/actor-kind.ts'
import { daemonKind } from './daemon.machine.ts'
import { executionKind } from './execution.machine.ts'
import { hostConnectionKind } from './host-connection.machine.ts'
import { resumedSandboxKind } from './resumed-sandbox.machine.ts'

export const daemonKinds: readonly ActorKind[] = [
  daemonKind,
  hostConnectionKind,
  executionKind,
  resumedSandboxKind,
]

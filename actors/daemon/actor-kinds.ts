/** Lists every actor kind of the worker daemon with its supervision. */
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

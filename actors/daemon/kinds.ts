/** Every kind of life a worker daemon knows, with what happens to it when it throws. */
import type { Kind } from '../kit/kind.ts'
import { bootedKind } from './booted.machine.ts'
import { daemonKind } from './daemon.machine.ts'
import { executionKind } from './execution.machine.ts'
import { linkKind } from './link.machine.ts'

export const daemonKinds: readonly Kind[] = [daemonKind, linkKind, executionKind, bootedKind]

/** The daemon's actor kinds, in a file of their own so that machines can address each other without an import cycle. */
import { kindName } from '../runtime/actor-kind.ts'
import type { DaemonEvent, DaemonMachineContext } from './daemon.machine.ts'
import type { ExecutionContext, ExecutionEvent, ExecutionInput } from './execution.machine.ts'
import type { HostConnectionContext, HostConnectionEvent } from './host-connection.machine.ts'
import type {
  ResumedSandboxContext,
  ResumedSandboxEvent,
  ResumedSandboxInput,
} from './resumed-sandbox.machine.ts'

export const DAEMON = kindName<DaemonMachineContext, DaemonEvent>('daemon')
export const HOST_CONNECTION = kindName<HostConnectionContext, HostConnectionEvent>('link')
export const EXECUTION = kindName<ExecutionContext, ExecutionEvent, ExecutionInput>('execution')
export const RESUMED_SANDBOX = kindName<ResumedSandboxContext, ResumedSandboxEvent, ResumedSandboxInput>(
  'booted',
)

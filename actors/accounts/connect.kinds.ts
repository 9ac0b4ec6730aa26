/** The lives of connecting, for the host. None of them outlives the process. */
import type { ActorKind } from '../runtime/actor-kind.ts'
import { deviceFlowKind } from './device-flow.machine.ts'
import { journeyKind } from './oauth-redirect.machine.ts'

export const connectKinds: readonly ActorKind[] = [deviceFlowKind, journeyKind]

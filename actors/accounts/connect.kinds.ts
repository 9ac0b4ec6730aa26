/** The lives of connecting, for the host. None of them outlives the process. */
import type { ActorKind } from '../runtime/actor-kind.ts'
import { deviceFlowKind } from './device-flow.machine.ts'
import { oauthRedirectKind } from './oauth-redirect.machine.ts'

export const accountKinds: readonly ActorKind[] = [deviceFlowKind, oauthRedirectKind]

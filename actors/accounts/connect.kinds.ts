/** The actor kinds of the account flows. None of these actors survives a restart. */
import type { ActorKind } from '../runtime/actor-kind.ts'
import { deviceFlowKind } from './device-flow.machine.ts'
import { oauthRedirectKind } from './oauth-redirect.machine.ts'

export const accountKinds: readonly ActorKind[] = [deviceFlowKind, oauthRedirectKind]

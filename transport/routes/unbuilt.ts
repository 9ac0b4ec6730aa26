/**
 * Routes that exist in the protocol and do not work yet, all of them, by name.
 *
 * They answer 501 after every other check. A name leaves this list when its handler arrives: with a handler and a
 * place here, or with neither, the handlers' table does not compile.
 */
import type { RouteName } from '../../protocol/routes.ts'

export const unbuilt = ['provisionWorker'] as const satisfies readonly RouteName[]

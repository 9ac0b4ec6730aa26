/**
 * The routes of the protocol that are not built yet; they answer 501 after all other checks.
 *
 * The handler table compiles only if every route has either a handler or an entry here.
 */
import type { RouteName } from '../../protocol/routes.ts'

export const unbuilt = [] as const satisfies readonly RouteName[]

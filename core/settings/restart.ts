/**
 * Tells whether a change affects a setting that is bound once at start. Effective values are compared, so writing
 * down a default changes nothing.
 */
import { RESTART_PATHS, type ServiceConfig } from '../../protocol/config.ts'
import { isJsonEqual } from './json-equal.ts'
import { valueAt } from './path.ts'

export function needsRestart(before: ServiceConfig, after: ServiceConfig): boolean {
  return RESTART_PATHS.some((path) => !isJsonEqual(valueAt(before, path), valueAt(after, path)))
}

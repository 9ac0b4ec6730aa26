/**
 * Whether a change reaches something that is bound once, at start. Compared is what is in effect: writing down a
 * default that held anyway changes nothing.
 */
import { RESTART_PATHS, type ServiceConfig } from '../../protocol/config.ts'
import { isJsonEqual } from './json-equal.ts'
import { valueAt } from './path.ts'

export function needsRestart(before: ServiceConfig, after: ServiceConfig): boolean {
  return RESTART_PATHS.some((path) => !isJsonEqual(valueAt(before, path), valueAt(after, path)))
}

/**
 * The only way for a configuration out of the process: every secret that is set reads `***`.
 *
 * An empty text is not a secret and stays, so that a reader can tell "nothing set" from "set". The answer is a fresh
 * copy that shares nothing with the configuration in force.
 */
import { MASK, SECRET_PATHS, type ServiceConfig } from '../../protocol/config.ts'
import { mergePatch } from './merge.ts'
import { objectWith, valueAt } from './path.ts'

export function redactConfig(config: ServiceConfig): ServiceConfig {
  const set = SECRET_PATHS.filter((path) => isSet(valueAt(config, path)))
  const masked = set.reduce<unknown>(
    (value, path) => mergePatch(value, objectWith(path, MASK)),
    mergePatch({}, config),
  )
  // The shape is unchanged: texts were replaced by texts.
  return masked as ServiceConfig
}

function isSet(secret: unknown): boolean {
  return secret !== undefined && secret !== ''
}

/** Every secret that is set, for those who must keep them out of something. */
export function secretsOf(config: ServiceConfig): string[] {
  return SECRET_PATHS.map((path) => valueAt(config, path)).filter(
    (secret): secret is string => typeof secret === 'string' && secret !== '',
  )
}

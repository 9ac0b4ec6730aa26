/**
 * Replaces every secret of a configuration that is set by `***`. Every configuration that leaves the process goes
 * through this function.
 *
 * An empty text is not a secret and stays, so that a reader can tell "not set" from "set". The result is a new copy
 * that shares nothing with the current configuration.
 */
import { MASK, SECRET_PATHS, type ServiceConfig } from '../../protocol/config.ts'
import { mergePatch } from '../../protocol/merge-patch.ts'
import { objectWith, valueAt } from './json-values.ts'

export function redactConfig(config: ServiceConfig): ServiceConfig {
  const set = SECRET_PATHS.filter((path) => isSet(valueAt(config, path)))
  const masked = set.reduce<unknown>(
    (value, path) => mergePatch(value, objectWith(path, MASK)),
    mergePatch({}, config),
  )
  // The type is unchanged, because strings were replaced by strings.
  return masked as ServiceConfig
}

function isSet(secret: unknown): boolean {
  return secret !== undefined && secret !== ''
}

/** Returns every secret that is set, for code that must keep them out of a text. */
export function secretsOf(config: ServiceConfig): string[] {
  return SECRET_PATHS.map((path) => valueAt(config, path)).filter(
    (secret): secret is string => typeof secret === 'string' && secret !== '',
  )
}

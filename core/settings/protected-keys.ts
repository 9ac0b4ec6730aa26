/**
 * What a settings change must leave alone.
 *
 * Credentials are written by the flows that check them with their provider, never by a patch. Compared are the values
 * before and after, not the paths of the patch: however a change is spelled, a credential that is not the same
 * afterwards (set, replaced, removed, gone with its section) refuses the whole. No value ever enters the message.
 * The tracker's client secret is not one of them; that the mask is no secret is `completeConfig`'s to say.
 */
import { CREDENTIAL_PATHS } from '../../protocol/config.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-equal.ts'
import { valueAt } from './path.ts'

export function guardCredentials(current: unknown, merged: unknown): Result<true> {
  const touched = CREDENTIAL_PATHS.find((path) => !isJsonEqual(valueAt(current, path), valueAt(merged, path)))
  if (touched === undefined) return yes(true)
  return no('invalid', `${touched}: is a credential; use PUT /api/settings/credentials or a connect flow`)
}

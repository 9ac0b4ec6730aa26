/**
 * Refuses a settings change that touches a credential.
 *
 * Credentials are written by the flows that check them with their provider, never by a patch. The values before and
 * after are compared, not the paths of the patch: a change that sets, replaces or removes a credential in any way is
 * refused as a whole. No value enters the message. The tracker's client secret is not a credential in this sense;
 * `completeConfig` refuses the mask as a secret.
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

/**
 * The launch token: new at each start, or given by the program that starts the host.
 */
import type { Chance } from '../core/ports.ts'
import { LAUNCH_TOKEN_CHARS_MIN } from '../protocol/limits.ts'

export interface LaunchToken {
  readonly token: string
  readonly warning?: string
}

export function launchToken(given: string | undefined, chance: Chance): LaunchToken {
  if (given !== undefined && given.length >= LAUNCH_TOKEN_CHARS_MIN && /^[\x21-\x7e]+$/.test(given))
    return { token: given }
  const token = Buffer.from(chance.bytes(32)).toString('base64url')
  if (given === undefined || given === '') return { token }
  return {
    token,
    warning: `SWITCHYARD_TOKEN is ignored: it must be ${LAUNCH_TOKEN_CHARS_MIN} or more printable characters without spaces; a random token is used, see launch.json`,
  }
}

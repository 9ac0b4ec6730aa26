/**
 * Chooses the launch token: random at each start, or given by the program that starts the host.
 */
import type { RandomSource } from '../core/ports.ts'
import { LAUNCH_TOKEN_CHARS_MAX, LAUNCH_TOKEN_CHARS_MIN } from '../protocol/limits.ts'

export interface LaunchToken {
  readonly token: string
  readonly warning?: string
}

/** A token longer than the listener reads from a header would lock out all clients. */
const USABLE = new RegExp(`^[\\x21-\\x7e]{${LAUNCH_TOKEN_CHARS_MIN},${LAUNCH_TOKEN_CHARS_MAX}}$`)

export function launchToken(given: string | undefined, random: RandomSource): LaunchToken {
  if (given !== undefined && USABLE.test(given)) return { token: given }
  const token = Buffer.from(random.bytes(32)).toString('base64url')
  if (given === undefined || given === '') return { token }
  return {
    token,
    warning: `SWITCHYARD_TOKEN is ignored: it must be ${LAUNCH_TOKEN_CHARS_MIN} to ${LAUNCH_TOKEN_CHARS_MAX} printable characters without spaces; a random token is used, see launch.json`,
  }
}

/**
 * Chooses the launch token: random at each start, or given by the program that starts the host, in a file or itself.
 */
import { readFileSync } from 'node:fs'
import type { RandomSource } from '../core/ports.ts'
import { LAUNCH_TOKEN_CHARS_MAX, LAUNCH_TOKEN_CHARS_MIN } from '../protocol/limits.ts'

export interface LaunchToken {
  readonly token: string
  readonly warning?: string
}

/** A token longer than the listener reads from a header would lock out all clients. */
const USABLE = new RegExp(`^[\\x21-\\x7e]{${LAUNCH_TOKEN_CHARS_MIN},${LAUNCH_TOKEN_CHARS_MAX}}$`)

interface TokenVariables {
  readonly SWITCHYARD_TOKEN?: string | undefined
  readonly SWITCHYARD_TOKEN_FILE?: string | undefined
}

export function launchToken(env: TokenVariables, random: RandomSource): LaunchToken {
  const { SWITCHYARD_TOKEN: itself = '', SWITCHYARD_TOKEN_FILE: file = '' } = env
  const [variable, given] =
    itself !== '' || file === '' ? ['SWITCHYARD_TOKEN', itself] : ['SWITCHYARD_TOKEN_FILE', readToken(file)]
  if (given !== undefined && USABLE.test(given)) return { token: given }
  const token = Buffer.from(random.bytes(32)).toString('base64url')
  if (given === '') return { token }
  if (given === undefined)
    return {
      token,
      warning: `${variable} is ignored: ${file} cannot be read; a random token is used, see launch.json`,
    }
  return {
    token,
    warning: `${variable} is ignored: it must be ${LAUNCH_TOKEN_CHARS_MIN} to ${LAUNCH_TOKEN_CHARS_MAX} printable characters without spaces; a random token is used, see launch.json`,
  }
}

function readToken(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return undefined
  }
}

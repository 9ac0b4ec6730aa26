/**
 * Writes `launch.json`, by which other programs of the same user find this host and its token. The file is owner-only,
 * is written when the listeners are open, and is removed on a clean stop.
 */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isTakenOver } from '../../../core/owner.ts'
import type { RandomSource } from '../../../core/ports/clock.ts'
import type { ControlDatabase } from '../../../core/ports/store.ts'
import { LAUNCH_TOKEN_CHARS_MAX } from '../../../protocol/limits.ts'
import { replaceFile } from '../../../store/files/atomic.ts'

export const LAUNCH_TOKEN_CHARS_MIN = 32

export interface Launch {
  readonly pid: number
  readonly version: string
  readonly startedAt: string
  readonly url: string
  readonly fleetUrl?: string
  readonly inspectorUrl?: string
  /** The name of the socket that only the host's user can reach. */
  readonly socket?: string
  readonly token: string
}

const pathIn = (dataDir: string): string => join(dataDir, 'launch.json')

/** After another process has taken the data directory over, the file is that of the other one. */
const isOwn = (database: Pick<ControlDatabase, 'state'>): boolean => !isTakenOver(database.state())

export async function writeLaunch(
  dataDir: string,
  launch: Launch,
  database: Pick<ControlDatabase, 'state'>,
): Promise<void> {
  await replaceFile(pathIn(dataDir), `${JSON.stringify(launch, undefined, 2)}\n`, () => isOwn(database))
}

export async function removeLaunch(dataDir: string, database: Pick<ControlDatabase, 'state'>): Promise<void> {
  if (isOwn(database)) await rm(pathIn(dataDir), { force: true })
}

// ---- the token -----------------------------------------------------------------------------------------------------

interface LaunchToken {
  readonly token: string
  readonly warning?: string
}

/** A token longer than the listener reads from a header would lock out all clients. */
const USABLE = new RegExp(`^[\\x21-\\x7e]{${LAUNCH_TOKEN_CHARS_MIN},${LAUNCH_TOKEN_CHARS_MAX}}$`)

interface TokenVariables {
  readonly SWITCHYARD_TOKEN?: string | undefined
  readonly SWITCHYARD_TOKEN_FILE?: string | undefined
}

/**
 * Chooses the launch token: random at each start, or given by the program that starts the host, in a file or itself.
 */
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

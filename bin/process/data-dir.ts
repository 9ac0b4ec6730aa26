/**
 * Resolves the data directory: the flag, else the environment variable, else the platform's default.
 */
import { homedir, platform } from 'node:os'
import { join, resolve } from 'node:path'
import { usageError } from './exit.ts'

export interface DataDirEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: NodeJS.Platform
  readonly home: string
}

const currentEnvironment = (): DataDirEnvironment => ({
  env: process.env,
  platform: platform(),
  home: homeFolder(),
})

/** The home folder; `/` for a user that the system does not know, as in some containers. */
export function homeFolder(): string {
  try {
    return homedir()
  } catch {
    return '/'
  }
}

export function resolveDataDir(
  flag: string | undefined,
  name = 'switchyard',
  { env, platform, home } = currentEnvironment(),
): string {
  // A variable of a script that is not set must not choose another folder.
  if (flag === '') throw usageError('--data-dir is empty', 'name a folder with --data-dir, or leave it out')
  const chosen = flag ?? env.SWITCHYARD_DATA_DIR
  if (chosen !== undefined && chosen !== '') return resolve(chosen)
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', name)
  // The XDG specification says to ignore a relative XDG_DATA_HOME.
  const xdg = env.XDG_DATA_HOME
  return join(xdg?.startsWith('/') ? xdg : join(home, '.local', 'share'), name)
}

/**
 * Returns the folder that a command in another terminal has to name, where the variable may not be set; undefined for
 * the platform's default.
 */
export function dataDirElsewhere(
  flag: string | undefined,
  environment = currentEnvironment(),
): string | undefined {
  const chosen = resolveDataDir(flag, undefined, environment)
  const withoutVariable = { ...environment, env: { ...environment.env, SWITCHYARD_DATA_DIR: undefined } }
  return chosen === resolveDataDir(undefined, undefined, withoutVariable) ? undefined : chosen
}

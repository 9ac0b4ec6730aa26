/**
 * Where a host keeps everything: the flag, else the environment, else what the platform's custom says.
 */
import { homedir, platform } from 'node:os'
import { join, resolve } from 'node:path'

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

/** A user that the system knows nothing of, as in some containers, has none. */
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
  const said = flag ?? env.SWITCHYARD_DATA_DIR
  if (said !== undefined && said !== '') return resolve(said)
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', name)
  // A relative XDG_DATA_HOME is to be ignored, says its specification.
  const xdg = env.XDG_DATA_HOME
  return join(xdg?.startsWith('/') ? xdg : join(home, '.local', 'share'), name)
}

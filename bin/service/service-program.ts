/**
 * `findServiceProgram` collects what a service manager needs to start `switchyard serve` as this shell would start it.
 *
 * A service manager gives a program almost no environment, so the PATH of the installing shell is recorded, and a few
 * folders. No other variable is: anybody who may read the file would read a secret in it.
 */
import { realpathSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import { EXIT, ExitError } from '../exit.ts'

export interface ServiceProgram {
  /** Absolute paths of node and of this program's script. */
  readonly node: string
  readonly script: string
  readonly dataDir: string
  /** The working directory, from which relative paths of the configuration start. */
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
}

export interface ServiceShell {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly node: string
  readonly script: string
  readonly dataDir: string
  readonly home: string
}

/** Folders of sandboxes and of the agents' logins. */
const FOLDER_VARIABLES = ['SWITCHYARD_SANDBOX_DIR', 'CLAUDE_CONFIG_DIR', 'CODEX_HOME'] as const
/** Folders that end with the login session: a version manager links to its programs there. */
const SESSION_FOLDER = /^\/(?:run|tmp|var\/folders)\//

export function findServiceProgram({ env, node, script, dataDir, home }: ServiceShell): ServiceProgram {
  const folders = FOLDER_VARIABLES.flatMap((name) => {
    const value = env[name] ?? ''
    return value === '' ? [] : [[name, resolve(value)] as const]
  })
  const program = { node, script: realpathOf(script), dataDir: resolve(dataDir), home }
  for (const path of [...Object.values(program), ...folders.map(([, value]) => value)]) requirePrintable(path)
  return {
    ...program,
    environment: { PATH: recordedPath(env.PATH ?? '', node), ...Object.fromEntries(folders) },
  }
}

/** Keeps absolute folders, each once, and adds that of node, because agents are scripts that node runs. */
function recordedPath(path: string, node: string): string {
  const folders = path
    .split(':')
    .filter((folder) => isAbsolute(folder) && !hasControls(folder))
    .map((folder) => (SESSION_FOLDER.test(folder) ? realpathOf(folder) : folder))
  return [...new Set([...folders, dirname(node)])].join(':')
}

function realpathOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}

const hasControls = (text: string): boolean => /\p{Cc}/u.test(text)

function requirePrintable(path: string): void {
  if (hasControls(path))
    throw new ExitError(
      EXIT.usage,
      `${JSON.stringify(path)} holds a control character, which no service takes`,
    )
}

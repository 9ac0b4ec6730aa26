/** Finds the service manager of this machine, and the program that it starts. */

import { realpathSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, isAbsolute, resolve } from 'node:path'
import { homeFolder, resolveDataDir } from '../../process/data-dir.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { createLaunchd } from './launchd.ts'
import { createManagerRunner, type ManagerRunner, type ServiceManager } from './service-manager.ts'
import { createSystemd } from './systemd.ts'

/** The facts of the machine that the commands `service` use. */
export interface ServiceMachine {
  readonly platform: NodeJS.Platform
  readonly env: NodeJS.ProcessEnv
  readonly home: string
  readonly uid: number
  readonly userName: string
  readonly node: string
  readonly script: string
}

export interface FoundManager {
  readonly manager: ServiceManager
  readonly run: ManagerRunner
  readonly dataDir: string
  /** From which relative paths of the configuration start. */
  readonly home: string
}

export function currentMachine(): ServiceMachine {
  const { uid, username } = userInfo()
  const { platform, env, execPath, argv } = process
  return { platform, env, home: homeFolder(), uid, userName: username, node: execPath, script: argv[1] ?? '' }
}

export function findManager(machine: ServiceMachine, dataDirOption: string | undefined): FoundManager {
  const { platform, env, home, uid, userName, node, script } = machine
  const dataDir = resolveDataDir(dataDirOption, 'switchyard', { env, platform, home })
  const program = findServiceProgram({ env, node, script, dataDir, home })
  const run = createManagerRunner(env)
  if (platform === 'linux')
    return {
      manager: createSystemd(program, { name: userName, home, env }),
      run,
      dataDir: program.dataDir,
      home,
    }
  if (platform === 'darwin')
    return { manager: createLaunchd(program, { uid, home }), run, dataDir: program.dataDir, home }
  throw refusedError(`services are for Linux and macOS, not for ${platform}`, 'switchyard serve')
}

// ---- the program ---------------------------------------------------------------------------------------------------

export interface ServiceProgram {
  /** Absolute paths of node and of this program's script. */
  readonly node: string
  readonly script: string
  readonly dataDir: string
  /** The working directory, from which relative paths of the configuration start. */
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
}

interface ServiceShell {
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

/**
 * Collects what a service manager needs to start `switchyard serve` as this shell would start it.
 *
 * A service manager gives a program almost no environment, so the PATH of the installing shell is recorded, and a few
 * folders. No other variable is: anybody who may read the file would read a secret in it.
 */
function findServiceProgram({ env, node, script, dataDir, home }: ServiceShell): ServiceProgram {
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
    throw usageError(`${JSON.stringify(path)} holds a control character, which no service takes`)
}

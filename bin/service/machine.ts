/** Finds the service manager of this machine. */
import { userInfo } from 'node:os'
import { homeFolder, resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError } from '../exit.ts'
import { createLaunchd } from './launchd.ts'
import { createManagerRunner, type ManagerRunner } from './run-manager.ts'
import type { ServiceManager } from './service-manager.ts'
import { findServiceProgram } from './service-program.ts'
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
  throw new ExitError(
    EXIT.refused,
    `services are for Linux and macOS, not for ${platform}`,
    'switchyard serve',
  )
}

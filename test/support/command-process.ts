/**
 * Runs the real command in a separate process, like a person or a desktop shell starts it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from '@jest/globals'
import { beforeFoldersGo, tempFolder } from './temp-folder.ts'
import { until } from './until.ts'

export const commandPath = join(
  dirname(dirname(dirname(fileURLToPath(import.meta.url)))),
  'dist',
  'bin',
  'switchyard.js',
)

export interface LaunchFile {
  readonly pid: number
  readonly version: string
  readonly startedAt: string
  readonly url: string
  readonly fleetUrl?: string
  readonly inspectorUrl?: string
  readonly token: string
}

export interface CommandProcess {
  readonly process: ChildProcess
  readonly dataDir: string
  readonly out: () => string
  readonly err: () => string
  readonly exit: Promise<number | NodeJS.Signals>
  /** Waits until the listeners are open; fails with the standard error output when the process ends first. */
  waitForLaunch(): Promise<LaunchFile>
  /** Requests `path` with the launch token. */
  request(
    path: string,
    init?: { method?: string; body?: unknown },
  ): Promise<{ status: number; body: unknown }>
}

const running = new Set<ChildProcess>()
let sandboxes: string | undefined
let installed: string | undefined

/** Returns the folder for sandboxes: sandbox users may traverse it, and it is deleted after the tests. */
export function sandboxFolder(): string {
  if (sandboxes === undefined) {
    sandboxes = tempFolder()
    chmodSync(sandboxes, 0o711)
  }
  return sandboxes
}

/** The command under the name that it has where somebody installed it; its folder has to be on the PATH. */
export function installedCommand(): string {
  if (installed === undefined) {
    installed = join(tempFolder(), 'switchyard')
    symlinkSync(commandPath, installed)
  }
  return installed
}

/** The PATH of a person who installed the command. */
export const installedPath = (path = process.env.PATH): string => `${dirname(installedCommand())}:${path}`

afterEach(async () => {
  for (const child of running) child.kill('SIGKILL')
  running.clear()
})

/** Lets the process run until the test file ends, for tests that leave it as they find it. */
export function keepForFile(command: CommandProcess): CommandProcess {
  running.delete(command.process)
  beforeFoldersGo(async () => {
    command.process.kill('SIGKILL')
    await command.exit
  })
  return command
}

export function serve(
  dataDir: string,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  program?: string,
): CommandProcess {
  return runCommand(['serve', '--data-dir', dataDir, ...args], dataDir, env, program)
}

/**
 * Runs the command with any arguments.
 *
 * @param before the words of a program that runs the rest of its arguments as the first process of a container
 */
export function runCommand(
  args: readonly string[],
  dataDir = '',
  env: NodeJS.ProcessEnv = {},
  program = installedCommand(),
  before: readonly string[] = [],
): CommandProcess {
  const startedAt = Date.now()
  const [first = '', ...words] = [...before, process.execPath, program, ...args]
  const child = spawn(first, words, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      SWITCHYARD_SANDBOX_DIR: sandboxFolder(),
      ...env,
      ...(program === installed ? { PATH: installedPath(env.PATH) } : {}),
    },
  })
  running.add(child)
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  let ended: number | NodeJS.Signals | undefined
  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on('close', (code, signal) => {
      running.delete(child)
      ended = code ?? signal ?? -1
      resolve(ended)
    })
  })
  const launched = async () => {
    let launch: LaunchFile | undefined
    await until(`launch.json in ${dataDir}`, () => {
      if (ended !== undefined) throw new Error(`the host ended with ${ended}: ${err}`)
      launch = readLaunch(dataDir)
      // The first processes of all containers have the same id.
      const isNew = launch !== undefined && Date.parse(launch.startedAt) >= startedAt
      return isNew && launch?.pid === (before.length === 0 ? child.pid : 1)
    })
    if (launch === undefined) throw new Error('no launch.json')
    return launch
  }
  return {
    process: child,
    dataDir,
    out: () => out,
    err: () => err,
    exit,
    waitForLaunch: launched,
    request: async (path, init = {}) => {
      const { url, token } = await launched()
      const body = init.body === undefined ? {} : { body: JSON.stringify(init.body) }
      const response = await fetch(`${url}${path}`, {
        method: init.method ?? 'GET',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...body,
      })
      const text = await response.text()
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
    },
  }
}

export function readLaunch(dataDir: string): LaunchFile | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, 'launch.json'), 'utf8')) as LaunchFile
  } catch {
    return undefined
  }
}

/**
 * Returns a configuration with which many hosts run in parallel: the operating system assigns the ports, and no host
 * starts a local worker.
 */
export const configWithAnyPort = (more: object = {}): string =>
  JSON.stringify({ server: { port: 0 }, worker: { local: false }, ...more })

/**
 * Locates an installed agent and the host paths that its sandbox must mount; `probeAgents` says what this machine can
 * run.
 *
 * A sandbox contains /usr, so programs there need nothing else. Programs installed into a home folder need their
 * package and their interpreter, mounted by their real paths; a home folder itself is never mounted. For a program
 * that cannot be mounted or cannot run in a sandbox, the result says what to do instead.
 */
import { constants } from 'node:fs'
import { access, open, realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { toSentence } from '../../core/printable-output.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { AGENT_PROBLEM_CHARS_MAX, NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { WorkerAgent, WorkerAgents } from '../../protocol/worker.ts'
import type { AgentDriver, LocatedAgent } from './agent.ts'
import { parseObject, textAt } from './json-lines.ts'

export interface SearchPlace {
  /** The worker's own PATH. */
  readonly path: string
  /** Home folder of the worker's user, which is never mounted as a whole. */
  readonly home: string
  /** Sandboxes run as other users, so mounted paths must be accessible to all users. */
  readonly hasOwnUsers: boolean
  /** The worker's own environment, in which an agent may find a login. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

export interface AgentProgram {
  readonly program: string
  /** A command that installs it for all users. */
  readonly installCommand: string
}

export async function locateProgram(
  { program, installCommand }: AgentProgram,
  where: SearchPlace,
): Promise<LocatedAgent> {
  const executable = await findOnPath(program, where.path)
  if (executable === undefined)
    return notFound(`${program} is not installed; install it with: ${installCommand}`)
  const managerName = MANAGERS[basename(executable.realPath)]
  if (managerName !== undefined) {
    return notFound(
      `${program} is started by ${managerName}, which does not work in a sandbox; use: ${installCommand}`,
    )
  }
  const needs = await findRequirements(executable, where.path)
  if (needs.interpreter === 'missing') {
    return notFound(
      `${executable.realPath} needs ${needs.interpreterName}, which is not on the worker's PATH`,
    )
  }
  const readOnlyPaths = needs.readOnlyPaths.filter(isOutsideUsr)
  const problem = await findProblem(readOnlyPaths, where)
  if (problem !== undefined)
    return notFound(`${program} cannot be mounted in a sandbox: ${problem}; use: ${installCommand}`)
  return {
    is: 'found',
    program: executable.realPath,
    readOnlyPaths,
    ...(needs.path === undefined ? {} : { path: [needs.path] }),
  }
}

const notFound = (reason: string): LocatedAgent => ({
  is: 'missing',
  reason: toSentence(reason, AGENT_PROBLEM_CHARS_MAX),
})

/** Version managers: one program under many names that chooses the real one by its own files. */
const MANAGERS: Readonly<Record<string, string>> = {
  'volta-shim': 'Volta',
  mise: 'mise',
  asdf: 'asdf',
  proto: 'proto',
}

// ---- search ------------------------------------------------------------------------------------------------------

interface Executable {
  readonly realPath: string
}

/** Ignores relative folders, because they depend on the worker's current folder. */
async function findOnPath(program: string, path: string): Promise<Executable | undefined> {
  for (const folder of path.split(':').filter(isAbsolute)) {
    const realPath = await resolveExecutable(join(folder, program))
    if (realPath !== undefined) return { realPath }
  }
  return undefined
}

async function resolveExecutable(path: string): Promise<string | undefined> {
  try {
    const real = await realpath(path)
    await access(real, constants.X_OK)
    return (await stat(real)).isFile() ? real : undefined
  } catch {
    return undefined
  }
}

// ---- requirements ------------------------------------------------------------------------------------------------

type Requirements =
  | {
      readonly interpreter: 'none' | 'found'
      readonly readOnlyPaths: readonly string[]
      readonly path?: string
    }
  | { readonly interpreter: 'missing'; readonly interpreterName: string }

async function findRequirements({ realPath }: Executable, path: string): Promise<Requirements> {
  const ownPackage = packageFolderOf(realPath)
  const interpreterName = parseShebang(await readFirstLine(realPath))
  if (interpreterName === undefined) return { interpreter: 'none', readOnlyPaths: [ownPackage] }
  const interpreter = isAbsolute(interpreterName)
    ? await resolveExecutable(interpreterName)
    : (await findOnPath(interpreterName, path))?.realPath
  if (interpreter === undefined) return { interpreter: 'missing', interpreterName }
  const readOnlyPaths = [...new Set([ownPackage, interpreter])]
  // The program looks up the interpreter by name inside the sandbox too, so its folder must be on the PATH there.
  const isPlain = isAbsolute(interpreterName) || SYSTEM_PATH.includes(dirname(interpreter))
  return { interpreter: 'found', readOnlyPaths, ...(isPlain ? {} : { path: dirname(interpreter) }) }
}

const SYSTEM_PATH = ['/usr/local/bin', '/usr/bin']

/**
 * Folders of package managers whose packages refer to files of other packages; these are mounted as a whole. Elsewhere
 * a program is a single file.
 */
const PACKAGE_STORES: readonly RegExp[] = [
  /^(.*?)\/\.pnpm\//,
  /^(.*?\/node_modules)\//,
  /^(\/nix\/store)\//,
  /^(.*?\/\.linuxbrew)\//,
]

function packageFolderOf(real: string): string {
  for (const pattern of PACKAGE_STORES) {
    const folder = pattern.exec(real)?.[1]
    if (folder !== undefined) return folder
  }
  return real
}

const FIRST_LINE_BYTES_MAX = 256

async function readFirstLine(path: string): Promise<string> {
  const file = await open(path, 'r').catch(() => undefined)
  if (file === undefined) return ''
  try {
    const { buffer, bytesRead } = await file.read(
      Buffer.alloc(FIRST_LINE_BYTES_MAX),
      0,
      FIRST_LINE_BYTES_MAX,
      0,
    )
    return buffer.toString('latin1', 0, bytesRead).split('\n')[0] ?? ''
  } finally {
    await file.close()
  }
}

/** Returns a path, or a name to search on the PATH when the interpreter is `env`. */
function parseShebang(line: string): string | undefined {
  const [program, ...rest] = line.startsWith('#!') ? line.slice(2).trim().split(/\s+/) : []
  if (program === undefined || program === '') return undefined
  return basename(program) === 'env' ? rest.find((word) => !/^-|=/.test(word)) : program
}

// ---- mountable paths ---------------------------------------------------------------------------------------------

const isOutsideUsr = (path: string): boolean => !path.startsWith('/usr/')

async function findProblem(shown: readonly string[], where: SearchPlace): Promise<string | undefined> {
  for (const path of shown) {
    const problem = findBreadthProblem(path, where.home) ?? (await findPermissionProblem(path, where))
    if (problem !== undefined) return problem
  }
  return undefined
}

/** System and home folders, which are more than a single program. */
const TOO_BROAD = /^\/[^/]*$|^\/home\/[^/]+$/
/** Paths that the sandbox mounts itself. */
const SANDBOX_FOLDERS = /^\/(proc|dev|run|tmp|work|home\/agent|opt\/switchyard)(\/|$)/

function findBreadthProblem(path: string, home: string): string | undefined {
  const holdsHome = home === path || home.startsWith(`${path}/`)
  if (holdsHome || TOO_BROAD.test(path)) return `${path} is more than one program`
  return SANDBOX_FOLDERS.test(path) ? `${path} is a folder of the sandbox's own` : undefined
}

const ENTER_BY_ALL = 0o001
const READ_BY_ALL = 0o004

async function findPermissionProblem(
  path: string,
  { hasOwnUsers }: SearchPlace,
): Promise<string | undefined> {
  if (!hasOwnUsers) return undefined
  if (!(await hasModeBits(path, READ_BY_ALL | ENTER_BY_ALL))) return `${path} is not open to other users`
  for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) {
    if (!(await hasModeBits(folder, ENTER_BY_ALL))) return `${folder} is not open to other users`
  }
  return undefined
}

async function hasModeBits(path: string, bits: number): Promise<boolean> {
  const mode = await stat(path).then(
    (stats) => stats.mode,
    () => 0,
  )
  return (mode & bits) === bits
}

// ---- probing -------------------------------------------------------------------------------------------------------

export interface ProbedProgram extends AgentProgram {
  /** Files below the home folder that hold a login. */
  readonly loginFiles: readonly string[]
  /** Environment variables that hold a login. */
  readonly loginVariables: readonly string[]
}

export async function probeAgents(
  drivers: Readonly<Record<AgentProvider, Pick<AgentDriver, 'provider' | 'probe'>>>,
): Promise<WorkerAgents> {
  const probed = Object.values(drivers).map(
    async (driver) => [driver.provider, await driver.probe()] as const,
  )
  return Object.fromEntries(await Promise.all(probed))
}

/**
 * Tells whether this machine can run an agent, in which version, and whether the agent has a login here.
 *
 * The probe reads a few small files and starts no process, so it is cheap enough to be repeated every few seconds. A
 * login is only looked for: its content is neither read nor checked, and runs use the credentials of the host.
 */
export async function probeAgent(agent: ProbedProgram, where: SearchPlace): Promise<WorkerAgent> {
  const [located, loggedIn] = await Promise.all([locateProgram(agent, where), hasLogin(agent, where)])
  if (located.is === 'missing') return { found: false, loggedIn, problem: located.reason }
  const version = await readVersion(located.program)
  return { found: true, loggedIn, ...(version === undefined ? {} : { version }) }
}

async function hasLogin(
  { loginFiles, loginVariables }: ProbedProgram,
  { home, environment = {} }: SearchPlace,
): Promise<boolean> {
  if (loginVariables.some((name) => (environment[name] ?? '') !== '')) return true
  const found = await Promise.all(loginFiles.map((file) => exists(join(home, file))))
  return found.includes(true)
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

// ---- the version -------------------------------------------------------------------------------------------------

/** The folder of the npm package that a program is part of. */
const PACKAGE_FOLDER = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//
/** The vendor's own installer names a folder or a file after the version. */
const VERSION_IN_PATH = /\/(\d+\.\d+\.\d+[\w.-]*)(?:\/|$)/
const PACKAGE_BYTES_MAX = 64 * 1024

/** Returns undefined when the place of the program does not tell its version. */
async function readVersion(program: string): Promise<string | undefined> {
  const folder = PACKAGE_FOLDER.exec(program)?.[1]
  const version =
    folder === undefined
      ? VERSION_IN_PATH.exec(program)?.[1]
      : textAt(parseObject(await readStart(join(folder, 'package.json'))) ?? {}, 'version')
  return version?.slice(0, NAME_CHARS_MAX)
}

async function readStart(path: string): Promise<string> {
  const file = await open(path, 'r').catch(() => undefined)
  if (file === undefined) return ''
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(PACKAGE_BYTES_MAX), 0, PACKAGE_BYTES_MAX, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/**
 * Where an agent is installed on this machine, and what of the machine must be shown for it to run in a sandbox.
 *
 * A sandbox has /usr and little else. What was installed there needs nothing more; what was installed into somebody's
 * home needs its package, and its interpreter, by their real paths, and nothing beside them: a home folder is never
 * shown. When a program can't be shown or can't run there, the answer says what to do instead.
 */
import { constants } from 'node:fs'
import { access, open, realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join } from 'node:path'
import type { AgentFound } from './agent.ts'
import { sentence } from './printable-output.ts'

export interface Where {
  /** The worker's own PATH. */
  readonly path: string
  /** The worker's user's home, which is never shown as a whole. */
  readonly home: string
  /** Whether sandboxes run as somebody else, who enters only what everybody may. */
  readonly asOther: boolean
}

export interface Wanted {
  readonly program: string
  /** A command that installs it for all users. */
  readonly cure: string
}

export async function findProgram({ program, cure }: Wanted, where: Where): Promise<AgentFound> {
  const place = await onPath(program, where.path)
  if (place === undefined) return missing(`${program} is not installed; install it with: ${cure}`)
  const manager = MANAGERS[basename(place.real)]
  if (manager !== undefined) {
    return missing(`${program} is started by ${manager}, which does not work in a sandbox; use: ${cure}`)
  }
  const needs = await needsOf(place, where.path)
  if (needs.interpreter === 'missing') {
    return missing(`${place.real} needs ${needs.wants}, which is not on the worker's PATH`)
  }
  const shown = needs.shown.filter(isBeyondSystem)
  const wrong = await objection(shown, where)
  if (wrong !== undefined) return missing(`${program} cannot be shown in a sandbox: ${wrong}; use: ${cure}`)
  return {
    is: 'found',
    program: place.real,
    shown,
    ...(needs.path === undefined ? {} : { path: [needs.path] }),
  }
}

const REASON_CHARS_MAX = 500
const missing = (reason: string): AgentFound => ({
  is: 'missing',
  reason: sentence(reason, REASON_CHARS_MAX),
})

/** Programs that stand under every name and ask their own files which one is meant. */
const MANAGERS: Readonly<Record<string, string>> = {
  'volta-shim': 'Volta',
  mise: 'mise',
  asdf: 'asdf',
  proto: 'proto',
}

// ---- looking -----------------------------------------------------------------------------------------------------

interface Place {
  readonly real: string
}

/** Folders that are named relatively depend on where the worker stands, and don't count. */
async function onPath(program: string, path: string): Promise<Place | undefined> {
  for (const folder of path.split(':').filter(isAbsolute)) {
    const real = await programAt(join(folder, program))
    if (real !== undefined) return { real }
  }
  return undefined
}

async function programAt(path: string): Promise<string | undefined> {
  try {
    const real = await realpath(path)
    await access(real, constants.X_OK)
    return (await stat(real)).isFile() ? real : undefined
  } catch {
    return undefined
  }
}

// ---- what it needs -----------------------------------------------------------------------------------------------

type Needs =
  | { readonly interpreter: 'none' | 'found'; readonly shown: readonly string[]; readonly path?: string }
  | { readonly interpreter: 'missing'; readonly wants: string }

async function needsOf({ real }: Place, path: string): Promise<Needs> {
  const own = packageOf(real)
  const named = interpreterIn(await firstLine(real))
  if (named === undefined) return { interpreter: 'none', shown: [own] }
  const interpreter = isAbsolute(named) ? await programAt(named) : (await onPath(named, path))?.real
  if (interpreter === undefined) return { interpreter: 'missing', wants: named }
  const shown = [...new Set([own, interpreter])]
  // Found by its name inside too, so it has to have it there.
  const isPlain = isAbsolute(named) || SYSTEM_PATH.includes(dirname(interpreter))
  return { interpreter: 'found', shown, ...(isPlain ? {} : { path: dirname(interpreter) }) }
}

const SYSTEM_PATH = ['/usr/local/bin', '/usr/bin']

/**
 * Where packages lie that name files beside their own: all of what a manager put there together. Elsewhere a program
 * is one file.
 */
const TOGETHER: readonly RegExp[] = [
  /^(.*?)\/\.pnpm\//,
  /^(.*?\/node_modules)\//,
  /^(\/nix\/store)\//,
  /^(.*?\/\.linuxbrew)\//,
]

function packageOf(real: string): string {
  for (const pattern of TOGETHER) {
    const folder = pattern.exec(real)?.[1]
    if (folder !== undefined) return folder
  }
  return real
}

const FIRST_LINE_BYTES_MAX = 256

async function firstLine(path: string): Promise<string> {
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

/** A path, or a name to look for when `env` does the looking. */
function interpreterIn(line: string): string | undefined {
  const [program, ...rest] = line.startsWith('#!') ? line.slice(2).trim().split(/\s+/) : []
  if (program === undefined || program === '') return undefined
  return basename(program) === 'env' ? rest.find((word) => !/^-|=/.test(word)) : program
}

// ---- what may be shown -------------------------------------------------------------------------------------------

const isBeyondSystem = (path: string): boolean => !path.startsWith('/usr/')

async function objection(shown: readonly string[], where: Where): Promise<string | undefined> {
  for (const path of shown) {
    const wrong = isTooMuch(path, where.home) ?? (await isClosed(path, where))
    if (wrong !== undefined) return wrong
  }
  return undefined
}

/** Folders of the system and of people, none of which anybody installs a single program as. */
const TOO_MUCH = /^\/[^/]*$|^\/home\/[^/]+$/
/** Mounted over, in a sandbox. */
const TAKEN = /^\/(proc|dev|run|tmp|work|home\/agent|opt\/switchyard)(\/|$)/

function isTooMuch(path: string, home: string): string | undefined {
  const holdsHome = home === path || home.startsWith(`${path}/`)
  if (holdsHome || TOO_MUCH.test(path)) return `${path} is more than one program`
  return TAKEN.test(path) ? `${path} is a folder of the sandbox's own` : undefined
}

const ENTER_BY_ALL = 0o001
const READ_BY_ALL = 0o004

async function isClosed(path: string, { asOther }: Where): Promise<string | undefined> {
  if (!asOther) return undefined
  if (!(await allows(path, READ_BY_ALL | ENTER_BY_ALL))) return `${path} is not open to other users`
  for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) {
    if (!(await allows(folder, ENTER_BY_ALL))) return `${folder} is not open to other users`
  }
  return undefined
}

async function allows(path: string, bits: number): Promise<boolean> {
  const mode = await stat(path).then(
    (stats) => stats.mode,
    () => 0,
  )
  return (mode & bits) === bits
}

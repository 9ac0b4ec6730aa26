/**
 * `probeAgent` tells whether this machine can run an agent, in which version, and whether the agent has a login here.
 *
 * The probe reads a few small files and starts no process, so it is cheap enough to be repeated every few seconds. A
 * login is only looked for: its content is neither read nor checked, and runs use the credentials of the host.
 */
import { access, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { WorkerAgent, WorkerAgents } from '../../protocol/worker.ts'
import type { AgentDriver } from './agent.ts'
import { parseObject, textAt } from './json-lines.ts'
import { type AgentProgram, locateProgram, type SearchPlace } from './locate-agent.ts'

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

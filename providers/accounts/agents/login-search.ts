/**
 * These functions ask an agent's own command about a login and read the files in which the agent keeps it.
 *
 * A file alone may be years old, so an agent whose command reports logins is asked first. No credential enters a
 * refusal.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { LOGIN_FILE_BYTES_MAX, PROGRAM_MS_MAX } from '../../../protocol/limits.ts'
import {
  environmentFor,
  type ProgramEnvironment,
  type ProgramResult,
  programOnPath,
  type RunningProgram,
  startProgram,
} from '../../run-program.ts'
import { quoted } from '../reply-fields.ts'
import type { AgentLoginSearchPorts } from './agent-account.ts'

export const loginRefusal = (agent: string, reason: string, advice: string): Refused =>
  no('invalid', `${agent}: ${reason}; ${advice}`)

export const parenthesized = (text: string | undefined): string =>
  text === undefined ? '' : ` (${quoted(text)})`

const QUIET_ENVIRONMENT = { NO_COLOR: '1', CI: '1', DISABLE_TELEMETRY: '1', DISABLE_AUTOUPDATER: '1' }

export interface AgentStatusCommand {
  readonly name: string
  readonly args: readonly string[]
  /** The variable with which the agent finds its files; it holds no credential. */
  readonly folderVariable: string
}

export async function runAgentCommand(
  { name, args, folderVariable }: AgentStatusCommand,
  { environment, clock, inheritable, stopSignal: stopped }: AgentLoginSearchPorts,
): Promise<Result<Extract<ProgramResult, { is: 'ended' }>>> {
  const program = await programOnPath(name, environment.PATH)
  if (program === undefined) return no('invalid', `${name} is not installed on this machine`)
  const order = {
    program,
    args,
    // Not a checkout, because its files may configure the agent.
    folder: tmpdir(),
    environment: { ...environmentFor(environment, new RegExp(`^${folderVariable}$`)), ...QUIET_ENVIRONMENT },
    msMax: PROGRAM_MS_MAX,
    ...(inheritable === undefined ? {} : { inheritable }),
  }
  const running = startProgram(order, clock)
  const end = await endUnlessStopped(running, stopped)
  if (end.is === 'ended') return yes(end)
  if (end.is === 'late') return no('invalid', `${name} did not answer within ${PROGRAM_MS_MAX / 1000} s`)
  return no('invalid', `${name} could not be started (${end.reason})`)
}

async function endUnlessStopped(
  { ended, kill }: RunningProgram,
  stopSignal: AbortSignal | undefined,
): Promise<ProgramResult> {
  stopSignal?.addEventListener('abort', kill)
  if (stopSignal?.aborted === true) kill()
  const end = await ended
  stopSignal?.removeEventListener('abort', kill)
  return end
}

export function configFolder(
  environment: ProgramEnvironment,
  name: string,
  folderInHome: string,
): string | undefined {
  const configured = environment[name]
  if (configured?.startsWith('/')) return configured
  return environment.HOME?.startsWith('/') ? join(environment.HOME, folderInHome) : undefined
}

/** Reads a small regular file owned by this user; undefined for anything else. The file itself must be no link. */
export async function readOwnFile(path: string, uid: number): Promise<string | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    () => undefined,
  )
  if (file === undefined) return undefined
  try {
    const stats = await file.stat()
    const isOwn = stats.isFile() && stats.uid === uid && stats.size <= LOGIN_FILE_BYTES_MAX
    return isOwn ? await file.readFile('utf8') : undefined
  } catch {
    return undefined
  } finally {
    await file.close()
  }
}

/**
 * AgentAccount checks one agent's credentials and finds its login on this machine.
 *
 * A key is tested with one small request that costs nothing. For a login copied from a machine only the form is checked:
 * a request could use it up or refresh it while its owner uses it. The first run shows whether such a login works.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FoundLogin } from '../../../core/ports/accounts.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { PROGRAM_MS_MAX } from '../../../protocol/limits.ts'
import type { Http, HttpReply } from '../../http/http-types.ts'
import {
  environmentFor,
  type ProgramEnvironment,
  type ProgramResult,
  programOnPath,
  type RunningProgram,
  startProgram,
} from '../../run-program.ts'
import {
  asFields,
  fieldsIn,
  isTooManyRequests,
  quoted,
  textAt,
  tooManyRequests,
  unexpectedStatus,
} from '../reply-fields.ts'

export const LOGIN_FILE_BYTES_MAX = 64 * 1024

export interface AgentAccount {
  /** Checks the credential at its place in the configuration, and describes it. */
  check(agent: ServiceConfig['agent'], ports: AgentCheckPorts): Promise<Result<string>>
  /**
   * Finds a login that lasts for a whole run on another machine and does not disturb its owner here. An unusable login
   * is refused with the step to take instead. Nothing is logged.
   */
  findLogin(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>>
}

export interface AgentCheckPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Replaces addresses of the vendors' APIs; without a trailing slash. */
  readonly baseUrls?: Readonly<Partial<Record<AgentProvider, string>>>
}

export interface AgentLoginSearchPorts extends AgentCheckPorts {
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** The environment of this process: PATH, HOME and the folders of the agents. */
  readonly environment: ProgramEnvironment
  /** The user id that must own the login files. */
  readonly uid: number
  readonly inheritable?: () => readonly number[]
  /** Aborting this signal kills all running agent commands. */
  readonly stopSignal?: AbortSignal
}

/** A second try, so that a short network failure is not shown to the person. */
const TRIES = 2
const CHECK_NETWORK_ADVICE = 'check that this machine can reach the vendor'

export const NO_KEY = no('invalid', 'there is no key to check; give one')

export function getFromVendor(
  { http }: Pick<AgentCheckPorts, 'http'>,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<Result<HttpReply>> {
  const commonHeaders = { accept: 'application/json', 'user-agent': 'switchyard' }
  return http.send({ method: 'GET', url, tries: TRIES, headers: { ...commonHeaders, ...headers } })
}

interface CheckedKey {
  readonly vendor: string
  readonly key: string
}

/** These functions ask an agent's vendor about a key and translate the reply. */
export function keyCheckResult(
  { vendor, key }: CheckedKey,
  reply: HttpReply,
  { clock }: Pick<AgentCheckPorts, 'clock'>,
): Result<string> {
  if (reply.status === 200) return yes(`an API key of ${vendor}`)
  if (isTooManyRequests(reply)) return tooManyRequests(vendor, reply, clock.now())
  if (reply.status === 401 || reply.status === 403) return keyRefusal({ vendor, key }, reply)
  return unexpectedStatus(vendor, reply.status, CHECK_NETWORK_ADVICE)
}

/** Redacts the key from the vendor's reason, which may repeat it. */
export function keyRefusal({ vendor, key }: CheckedKey, reply: HttpReply): Refused {
  const reason = vendorReason(reply)?.replaceAll(key, '***')
  return no(
    'unauthorized',
    `${vendor} does not accept this key${reason === undefined ? '' : ` (${quoted(reason)})`}`,
  )
}

export function vendorReason(reply: HttpReply): string | undefined {
  return textAt(asFields(fieldsIn(reply.text)?.error), 'message')
}

export const loginRefusal = (agent: string, reason: string, advice: string): Refused =>
  no('invalid', `${agent}: ${reason}; ${advice}`)

export const parenthesized = (text: string | undefined): string =>
  text === undefined ? '' : ` (${quoted(text)})`

// ---- an agent's own program and files ------------------------------------------------------------------------------

const QUIET_ENVIRONMENT = { NO_COLOR: '1', CI: '1', DISABLE_TELEMETRY: '1', DISABLE_AUTOUPDATER: '1' }

interface AgentStatusCommand {
  readonly name: string
  readonly args: readonly string[]
  /** The variable with which the agent finds its files; it holds no credential. */
  readonly folderVariable: string
}

/**
 * These functions ask an agent's own command about a login and read the files in which the agent keeps it.
 *
 * A file alone may be years old, so an agent whose command reports logins is asked first. No credential enters a
 * refusal.
 */
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

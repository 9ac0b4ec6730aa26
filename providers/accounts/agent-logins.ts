/**
 * findAgentLogin finds an agent's login on this machine, so that no person has to copy a key.
 *
 * The agent's command must report a login and the agent's file must hold one, because a file alone may be years old.
 * A login must last for a whole run on another machine and must not disturb its owner here; `login-files.ts` explains
 * the choice per agent. An unusable login is refused with the step to take instead. Nothing is logged.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../../core/ports.ts'
import type { FoundLogin } from '../../core/provider-ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { type AgentProvider, configDefaults } from '../../protocol/config.ts'
import { LOGIN_CHARS_MAX, LOGIN_FILE_BYTES_MAX, PROGRAM_MS_MAX } from '../../protocol/limits.ts'
import {
  environmentFor,
  type ProgramEnvironment,
  type ProgramResult,
  programOnPath,
  type RunningProgram,
  startProgram,
} from '../run-program.ts'
import { type AgentCheckPorts, agentAField, checkAgent } from './agents.ts'
import { readClaudeLogin, readCodexKey, readCodexLoginFile, readGeminiLoginFile } from './login-files.ts'
import { fieldsIn, isCredential } from './reply-fields.ts'

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

export function findAgentLogin(
  provider: AgentProvider,
  ports: AgentLoginSearchPorts,
): Promise<Result<FoundLogin>> {
  return { agentA: findClaude, agentB: findCodex, agentC: findGemini }[provider](ports)
}

// ---- Claude Code ---------------------------------------------------------------------------------------------------

const CLAUDE_ADVICE = 'run claude setup-token there and paste what it prints, or give an API key'

/** Credentials in the environment are meant for programs and come first; the OAuth token is made for this use. */
async function findClaude(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const { CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY } = ports.environment
  for (const [name, value] of Object.entries({ CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY })) {
    if (value !== undefined && value !== '') return loginFromEnvironment(name, value, ports)
  }
  const status = await runAgentCommand('claude', ['auth', 'status'], ports)
  if (!status.ok) return loginRefusal('Claude Code', status.refusal.message, CLAUDE_ADVICE)
  const isLoggedIn = status.value.code === 0 && fieldsIn(status.value.out)?.loggedIn === true
  if (!isLoggedIn) return loginRefusal('Claude Code', 'nobody is logged in on this machine', CLAUDE_ADVICE)
  const folder = configFolder(ports.environment, 'CLAUDE_CONFIG_DIR', '.claude')
  const text =
    folder === undefined ? undefined : await readOwnFile(join(folder, '.credentials.json'), ports.uid)
  if (text === undefined)
    return loginRefusal('Claude Code', 'its login is in no file that can be handed on', CLAUDE_ADVICE)
  const login = readClaudeLogin(text, ports.clock.now())
  if (!login.ok) return loginRefusal('Claude Code', login.refusal.message, CLAUDE_ADVICE)
  const { token, detail } = login.value
  return yes({ detail, credential: { agentAOauthToken: token } })
}

async function loginFromEnvironment(
  name: string,
  value: string,
  ports: AgentLoginSearchPorts,
): Promise<Result<FoundLogin>> {
  if (!isCredential(value)) return no('invalid', `${name} of this machine holds no key; correct or remove it`)
  const credential = { [agentAField(value)]: value }
  const config = { ...configDefaults, agent: { ...configDefaults.agent, ...credential } }
  const checked = await checkAgent(config, 'agentA', ports)
  return checked.ok ? yes({ detail: `${checked.value}, from ${name}`, credential }) : checked
}

// ---- Codex ---------------------------------------------------------------------------------------------------------

const CODEX_ADVICE = 'run codex login on this machine and connect again'

async function findCodex(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const status = await runAgentCommand('codex', ['login', 'status'], ports)
  if (!status.ok) return loginRefusal('Codex', status.refusal.message, CODEX_ADVICE)
  if (status.value.code !== 0)
    return loginRefusal('Codex', 'nobody is logged in on this machine', CODEX_ADVICE)
  const folder = configFolder(ports.environment, 'CODEX_HOME', '.codex')
  const text = folder === undefined ? undefined : await readOwnFile(join(folder, 'auth.json'), ports.uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) {
    const advice = `set cli_auth_credentials_store = "file" in its config.toml, ${CODEX_ADVICE}`
    return loginRefusal('Codex', 'its login is in no file that can be handed on', advice)
  }
  const key = readCodexKey(text)
  return key === undefined ? readCodexLogin(text) : checkCodexKey(key, ports)
}

function readCodexLogin(text: string): Result<FoundLogin> {
  const login = readCodexLoginFile(text)
  if (!login.ok) return loginRefusal('Codex', 'its file holds no login', CODEX_ADVICE)
  return yes({ detail: login.value, credential: { agentBLogin: text } })
}

async function checkCodexKey(key: string, ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const config = { ...configDefaults, agent: { ...configDefaults.agent, agentBApiKey: key } }
  const checked = await checkAgent(config, 'agentB', ports)
  return checked.ok
    ? yes({ detail: `${checked.value}, of Codex`, credential: { agentBApiKey: key } })
    : checked
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

/** Gemini's command cannot report a login, and its vendor no longer allows other programs to use the login. */
async function findGemini(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const key = ports.environment.GEMINI_API_KEY
  if (key === undefined || key === '') return readGeminiLogin(ports)
  if (!isCredential(key))
    return no('invalid', 'GEMINI_API_KEY of this machine holds no key; correct or remove it')
  const config = { ...configDefaults, agent: { ...configDefaults.agent, agentCApiKey: key } }
  const checked = await checkAgent(config, 'agentC', ports)
  return checked.ok
    ? yes({ detail: `${checked.value}, from GEMINI_API_KEY`, credential: { agentCApiKey: key } })
    : checked
}

const GEMINI_ADVICE =
  'Gemini works with an API key: make one at https://aistudio.google.com/apikey and give it; a login of gemini works for enterprise accounts'

/** Reads the login file of Gemini's command. Only the form is checked: only the vendor's programs can use the login. */
async function readGeminiLogin({ environment, uid }: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const home = configFolder(environment, 'GEMINI_CLI_HOME', '')
  const path = home === undefined ? undefined : join(home, '.gemini', 'oauth_creds.json')
  const text = path === undefined ? undefined : await readOwnFile(path, uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) return no('invalid', GEMINI_ADVICE)
  const login = readGeminiLoginFile(text)
  return login.ok
    ? yes({ detail: login.value, credential: { agentCLogin: text } })
    : no('invalid', GEMINI_ADVICE)
}

// ---- commands and files --------------------------------------------------------------------------------------------

const loginRefusal = (agent: string, reason: string, advice: string): Refused =>
  no('invalid', `${agent}: ${reason}; ${advice}`)

/** The variables with which agents find their files; none of them holds a credential. */
const AGENT_ENVIRONMENT = /^(CLAUDE_CONFIG_DIR|CODEX_HOME)$/
const QUIET_ENVIRONMENT = { NO_COLOR: '1', CI: '1', DISABLE_TELEMETRY: '1', DISABLE_AUTOUPDATER: '1' }

async function runAgentCommand(
  name: string,
  args: readonly string[],
  { environment, clock, inheritable, stopSignal: stopped }: AgentLoginSearchPorts,
): Promise<Result<Extract<ProgramResult, { is: 'ended' }>>> {
  const program = await programOnPath(name, environment.PATH)
  if (program === undefined) return no('invalid', `${name} is not installed on this machine`)
  const order = {
    program,
    args,
    // Not a checkout, because its files may configure the agent.
    folder: tmpdir(),
    environment: { ...environmentFor(environment, AGENT_ENVIRONMENT), ...QUIET_ENVIRONMENT },
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

function configFolder(
  environment: ProgramEnvironment,
  name: string,
  folderInHome: string,
): string | undefined {
  const configured = environment[name]
  if (configured?.startsWith('/')) return configured
  return environment.HOME?.startsWith('/') ? join(environment.HOME, folderInHome) : undefined
}

/** Reads a small regular file owned by this user; undefined for anything else. The file itself must be no link. */
async function readOwnFile(path: string, uid: number): Promise<string | undefined> {
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

/**
 * Logins of agents that are on this machine already, so that nobody has to copy a key.
 *
 * The agent's own command says whether somebody is logged in, and its own file holds the login; both are needed, for a
 * file alone may be years old. What a run is handed has to work for a whole run on another machine and must not disturb
 * its owner's use here: why each kind is taken or not stands with its form. What cannot be taken is refused with what to
 * do instead. Nothing is logged.
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
  type Environment,
  environmentFor,
  type ProgramEnd,
  programOnPath,
  type RunningProgram,
  startProgram,
} from '../run-program.ts'
import { type AgentsParts, checkAgent, placeOfKey } from './agents.ts'
import { claudeLogin, codexKey, codexLogin, geminiLogin } from './login-files.ts'
import { fieldsIn, isCredential } from './reply-fields.ts'

export interface LoginsParts extends AgentsParts {
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** This machine's, as its person's programs have it: PATH, HOME and where agents keep their files. */
  readonly environment: Environment
  /** Who owns the files that count. */
  readonly uid: number
  readonly inheritable?: () => readonly number[]
  /** With it ends every program that is being asked. */
  readonly stopped?: AbortSignal
}

export function findAgentLogin(provider: AgentProvider, parts: LoginsParts): Promise<Result<FoundLogin>> {
  return { agentA: findClaude, agentB: findCodex, agentC: findGemini }[provider](parts)
}

// ---- Claude Code ---------------------------------------------------------------------------------------------------

const SETUP = 'run claude setup-token there and paste what it prints, or give an API key'

/** What was put into the environment was put there for programs to use; of the two the one that is made for this. */
async function findClaude(parts: LoginsParts): Promise<Result<FoundLogin>> {
  const { CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY } = parts.environment
  for (const [name, value] of Object.entries({ CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY })) {
    if (value !== undefined && value !== '') return inEnvironment(name, value, parts)
  }
  const status = await asked('claude', ['auth', 'status'], parts)
  if (!status.ok) return reasonFor('Claude Code', status.refusal.message, SETUP)
  const isLoggedIn = status.value.code === 0 && fieldsIn(status.value.out)?.loggedIn === true
  if (!isLoggedIn) return reasonFor('Claude Code', 'nobody is logged in on this machine', SETUP)
  const folder = folderOf(parts.environment, 'CLAUDE_CONFIG_DIR', '.claude')
  const text = folder === undefined ? undefined : await ownText(join(folder, '.credentials.json'), parts.uid)
  if (text === undefined)
    return reasonFor('Claude Code', 'its login is in no file that can be handed on', SETUP)
  const login = claudeLogin(text, parts.clock.now())
  if (!login.ok) return reasonFor('Claude Code', login.refusal.message, SETUP)
  const { token, detail } = login.value
  return yes({ detail, credential: { agentAOauthToken: token } })
}

async function inEnvironment(name: string, value: string, parts: LoginsParts): Promise<Result<FoundLogin>> {
  if (!isCredential(value)) return no('invalid', `${name} of this machine holds no key; correct or remove it`)
  const credential = { [placeOfKey(value)]: value }
  const config = { ...configDefaults, agent: { ...configDefaults.agent, ...credential } }
  const checked = await checkAgent(config, 'agentA', parts)
  return checked.ok ? yes({ detail: `${checked.value}, from ${name}`, credential }) : checked
}

// ---- Codex ---------------------------------------------------------------------------------------------------------

const CODEX = 'run codex login on this machine and connect again'

async function findCodex(parts: LoginsParts): Promise<Result<FoundLogin>> {
  const status = await asked('codex', ['login', 'status'], parts)
  if (!status.ok) return reasonFor('Codex', status.refusal.message, CODEX)
  if (status.value.code !== 0) return reasonFor('Codex', 'nobody is logged in on this machine', CODEX)
  const folder = folderOf(parts.environment, 'CODEX_HOME', '.codex')
  const text = folder === undefined ? undefined : await ownText(join(folder, 'auth.json'), parts.uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) {
    const cure = `set cli_auth_credentials_store = "file" in its config.toml, ${CODEX}`
    return reasonFor('Codex', 'its login is in no file that can be handed on', cure)
  }
  const key = codexKey(text)
  return key === undefined ? foundCodex(text) : foundCodexKey(key, parts)
}

function foundCodex(text: string): Result<FoundLogin> {
  const login = codexLogin(text)
  if (!login.ok) return reasonFor('Codex', 'its file holds no login', CODEX)
  return yes({ detail: login.value, credential: { agentBLogin: text } })
}

async function foundCodexKey(key: string, parts: LoginsParts): Promise<Result<FoundLogin>> {
  const config = { ...configDefaults, agent: { ...configDefaults.agent, agentBApiKey: key } }
  const checked = await checkAgent(config, 'agentB', parts)
  return checked.ok
    ? yes({ detail: `${checked.value}, of Codex`, credential: { agentBApiKey: key } })
    : checked
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

/** Its command cannot be asked, and its own login is not for use by other programs any more. */
async function findGemini(parts: LoginsParts): Promise<Result<FoundLogin>> {
  const key = parts.environment.GEMINI_API_KEY
  if (key === undefined || key === '') return foundGemini(parts)
  if (!isCredential(key))
    return no('invalid', 'GEMINI_API_KEY of this machine holds no key; correct or remove it')
  const config = { ...configDefaults, agent: { ...configDefaults.agent, agentCApiKey: key } }
  const checked = await checkAgent(config, 'agentC', parts)
  return checked.ok
    ? yes({ detail: `${checked.value}, from GEMINI_API_KEY`, credential: { agentCApiKey: key } })
    : checked
}

const GEMINI =
  'Gemini works with an API key: make one at https://aistudio.google.com/apikey and give it; a login of gemini works for enterprise accounts'

/** A login that its command has kept. It is believed by its form: only its vendor's own programs can show it works. */
async function foundGemini({ environment, uid }: LoginsParts): Promise<Result<FoundLogin>> {
  const home = folderOf(environment, 'GEMINI_CLI_HOME', '')
  const path = home === undefined ? undefined : join(home, '.gemini', 'oauth_creds.json')
  const text = path === undefined ? undefined : await ownText(path, uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) return no('invalid', GEMINI)
  const login = geminiLogin(text)
  return login.ok ? yes({ detail: login.value, credential: { agentCLogin: text } }) : no('invalid', GEMINI)
}

// ---- asking and reading --------------------------------------------------------------------------------------------

const reasonFor = (who: string, why: string, cure: string): Refused =>
  no('invalid', `${who}: ${why}; ${cure}`)

/** What they need to find their own files and nothing of what could be a credential. */
const OF_AGENTS = /^(CLAUDE_CONFIG_DIR|CODEX_HOME)$/
const QUIET = { NO_COLOR: '1', CI: '1', DISABLE_TELEMETRY: '1', DISABLE_AUTOUPDATER: '1' }

async function asked(
  name: string,
  args: readonly string[],
  { environment, clock, inheritable, stopped }: LoginsParts,
): Promise<Result<Extract<ProgramEnd, { is: 'ended' }>>> {
  const program = await programOnPath(name, environment.PATH)
  if (program === undefined) return no('invalid', `${name} is not installed on this machine`)
  const order = {
    program,
    args,
    // No checkout: what is in one may configure them.
    folder: tmpdir(),
    environment: { ...environmentFor(environment, OF_AGENTS), ...QUIET },
    msMax: PROGRAM_MS_MAX,
    ...(inheritable === undefined ? {} : { inheritable }),
  }
  const running = startProgram(order, clock)
  const end = await endedWith(running, stopped)
  if (end.is === 'ended') return yes(end)
  if (end.is === 'late') return no('invalid', `${name} did not answer within ${PROGRAM_MS_MAX / 1000} s`)
  return no('invalid', `${name} could not be started (${end.reason})`)
}

async function endedWith(
  { ended, kill }: RunningProgram,
  stopped: AbortSignal | undefined,
): Promise<ProgramEnd> {
  stopped?.addEventListener('abort', kill)
  if (stopped?.aborted === true) kill()
  const end = await ended
  stopped?.removeEventListener('abort', kill)
  return end
}

function folderOf(environment: Environment, name: string, below: string): string | undefined {
  const named = environment[name]
  if (named?.startsWith('/')) return named
  return environment.HOME?.startsWith('/') ? join(environment.HOME, below) : undefined
}

/** A small plain file of this user's own; undefined for anything else. Links are followed only in its folder's path. */
async function ownText(path: string, uid: number): Promise<string | undefined> {
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

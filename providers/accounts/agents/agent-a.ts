/**
 * agentAAccount checks and finds the credentials of agentA, Claude Code.
 *
 * Only the form of a login is verified. A plan inside it is an unverified claim and is used for display only.
 */
import { join } from 'node:path'
import type { FoundLogin } from '../../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { credentialFieldFor } from '../../../core/settings/agent-credentials.ts'
import { asFields, fieldsIn, isCredential, textAt } from '../reply-fields.ts'
import {
  type AgentAccount,
  type AgentCheckPorts,
  type AgentLoginSearchPorts,
  configFolder,
  getFromVendor,
  keyCheckResult,
  loginRefusal,
  NO_KEY,
  parenthesized,
  readOwnFile,
  runAgentCommand,
} from './agent-account.ts'

/** A login that expires sooner is useless for a run. */
const LOGIN_LEFT_MS_MIN = 3_600_000

export const agentAAccount: AgentAccount = {
  check: (agent, ports) => checkCredential(agent.agentAApiKey || agent.agentAOauthToken || '', ports),
  findLogin,
}

// ---- checks --------------------------------------------------------------------------------------------------------

const API = 'https://api.anthropic.com'
const ANTHROPIC_VERSION = '2023-06-01'
const SETUP_TOKEN = /^sk-ant-oat\d{2}-[\w-]{20,}$/

async function checkCredential(value: string, ports: AgentCheckPorts): Promise<Result<string>> {
  if (value === '') return NO_KEY
  if (value.startsWith('sk-ant-ort')) {
    return no('invalid', 'this is the refresh token of a login, not a key; run: claude setup-token')
  }
  // The token is valid for model requests only, so no free request can test it.
  if (credentialFieldFor('agentA', value) === 'agentAOauthToken') {
    return SETUP_TOKEN.test(value)
      ? yes('a token of Claude Code; its first run shows whether it is still good')
      : no(
          'invalid',
          'this token of Claude Code is incomplete; copy everything that claude setup-token printed',
        )
  }
  const headers = { 'x-api-key': value, 'anthropic-version': ANTHROPIC_VERSION }
  const reply = await getFromVendor(ports, `${ports.baseUrls?.agentA ?? API}/v1/models?limit=1`, headers)
  return reply.ok ? keyCheckResult({ vendor: 'Anthropic', key: value }, reply.value, ports) : reply
}

// ---- the login of this machine -------------------------------------------------------------------------------------

const ADVICE = 'run claude setup-token there and paste what it prints, or give an API key'
const FOLDER_VARIABLE = 'CLAUDE_CONFIG_DIR'
const STATUS_COMMAND = { name: 'claude', args: ['auth', 'status'], folderVariable: FOLDER_VARIABLE }

/** Credentials in the environment are meant for programs and come first; the OAuth token is made for this use. */
async function findLogin(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const { CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY } = ports.environment
  for (const [name, value] of Object.entries({ CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY })) {
    if (value !== undefined && value !== '') return loginFromEnvironment(name, value, ports)
  }
  const status = await runAgentCommand(STATUS_COMMAND, ports)
  if (!status.ok) return refuseLogin(status.refusal.message)
  const isLoggedIn = status.value.code === 0 && fieldsIn(status.value.out)?.loggedIn === true
  if (!isLoggedIn) return refuseLogin('nobody is logged in on this machine')
  const folder = configFolder(ports.environment, FOLDER_VARIABLE, '.claude')
  const text =
    folder === undefined ? undefined : await readOwnFile(join(folder, '.credentials.json'), ports.uid)
  if (text === undefined) return refuseLogin('its login is in no file that can be handed on')
  const login = readLoginFile(text, ports.clock.now())
  if (!login.ok) return refuseLogin(login.refusal.message)
  const { token, detail } = login.value
  return yes({ detail, credential: { agentAOauthToken: token } })
}

const refuseLogin = (reason: string) => loginRefusal('Claude Code', reason, ADVICE)

async function loginFromEnvironment(
  name: string,
  value: string,
  ports: AgentLoginSearchPorts,
): Promise<Result<FoundLogin>> {
  if (!isCredential(value)) return no('invalid', `${name} of this machine holds no key; correct or remove it`)
  const checked = await checkCredential(value, ports)
  if (!checked.ok) return checked
  const credential = { [credentialFieldFor('agentA', value)]: value }
  return yes({ detail: `${checked.value}, from ${name}`, credential })
}

/** The last instant that a JavaScript Date can hold. */
const INSTANT_MAX = 8.64e15

interface FileLogin {
  readonly token: string
  readonly detail: string
}

/**
 * Takes the access token only. The refresh token stays with its owner, because two programs that refresh one login lock
 * each other out. So the access token must last for a while; `claude setup-token` makes one that lasts.
 */
function readLoginFile(text: string, now: number): Result<FileLogin> {
  const login = asFields(fieldsIn(text)?.claudeAiOauth)
  const token = textAt(login, 'accessToken')
  if (!isCredential(token)) return no('invalid', 'its file holds no login')
  const expiresAt = login?.expiresAt
  const isInstant = typeof expiresAt === 'number' && Math.abs(expiresAt) <= INSTANT_MAX
  if (!isInstant) return no('invalid', 'its file does not state when the login expires')
  if (expiresAt - now < LOGIN_LEFT_MS_MIN) return no('invalid', 'its login expires within the hour')
  const plan = textAt(login, 'subscriptionType')
  const until = new Date(expiresAt).toISOString().slice(0, 16).replace('T', ' ')
  const detail = `the login of Claude Code on this machine${parenthesized(plan)}, good until ${until} UTC; for one that lasts, paste what claude setup-token prints`
  return yes({ token, detail })
}

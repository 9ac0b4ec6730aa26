/**
 * agentCAccount checks and finds the credentials of agentC, Gemini CLI.
 *
 * The agent's command cannot report a login, and only the vendor's programs may use one. So a key is preferred, and only
 * the form of a login is checked.
 */
import { join } from 'node:path'
import type { FoundLogin } from '../../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { LOGIN_CHARS_MAX } from '../../../protocol/limits.ts'
import { fieldsIn, isCredential, textAt } from '../reply-fields.ts'
import {
  type AgentAccount,
  type AgentCheckPorts,
  type AgentLoginSearchPorts,
  configFolder,
  getFromVendor,
  keyCheckResult,
  keyRefusal,
  NO_KEY,
  readOwnFile,
} from './agent-account.ts'

export const agentCAccount: AgentAccount = { check, findLogin }

// ---- checks --------------------------------------------------------------------------------------------------------

const API = 'https://generativelanguage.googleapis.com'

async function check(agent: ServiceConfig['agent'], ports: AgentCheckPorts): Promise<Result<string>> {
  if (agent.agentCApiKey) return checkKey(agent.agentCApiKey, ports)
  return agent.agentCLogin ? checkLoginFile(agent.agentCLogin) : NO_KEY
}

async function checkKey(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const url = `${ports.baseUrls?.agentC ?? API}/v1beta/models?pageSize=1`
  const reply = await getFromVendor(ports, url, { 'x-goog-api-key': key })
  if (!reply.ok) return reply
  // Google reports a wrong key with 400. The request itself is valid, so the key is the cause.
  if (reply.value.status === 400) return keyRefusal({ vendor: 'Google', key }, reply.value)
  return keyCheckResult({ vendor: 'Google', key }, reply.value, ports)
}

function checkLoginFile(text: string): Result<string> {
  const fields = fieldsIn(text)
  const isLogin = textAt(fields, 'refresh_token') ?? textAt(fields, 'access_token')
  if (isLogin === undefined)
    return no('invalid', 'this is no login of Gemini: the text of its oauth_creds.json is')
  return yes(
    'a login of Gemini, which works only with agent.keyInSandbox; its first run shows whether it is still good',
  )
}

// ---- the login of this machine -------------------------------------------------------------------------------------

async function findLogin(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const key = ports.environment.GEMINI_API_KEY
  if (key === undefined || key === '') return readLogin(ports)
  if (!isCredential(key))
    return no('invalid', 'GEMINI_API_KEY of this machine holds no key; correct or remove it')
  const checked = await checkKey(key, ports)
  return checked.ok
    ? yes({ detail: `${checked.value}, from GEMINI_API_KEY`, credential: { agentCApiKey: key } })
    : checked
}

const ADVICE =
  'Gemini works with an API key: make one at https://aistudio.google.com/apikey and give it; a login of gemini works for enterprise accounts'

async function readLogin({ environment, uid }: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const home = configFolder(environment, 'GEMINI_CLI_HOME', '')
  const path = home === undefined ? undefined : join(home, '.gemini', 'oauth_creds.json')
  const text = path === undefined ? undefined : await readOwnFile(path, uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) return no('invalid', ADVICE)
  const login = checkLoginFile(text)
  return login.ok ? yes({ detail: login.value, credential: { agentCLogin: text } }) : no('invalid', ADVICE)
}

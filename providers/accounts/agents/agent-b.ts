/**
 * agentBAccount checks and finds the credentials of agentB, Codex.
 *
 * Only the form of a login is verified. A name or plan inside it is an unverified claim and is used for display only.
 */
import { join } from 'node:path'
import type { FoundLogin } from '../../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { LOGIN_CHARS_MAX } from '../../../protocol/limits.ts'
import { asFields, fieldsIn, isCredential, quoted, type ReplyFields, textAt } from '../reply-fields.ts'
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
  vendorReason,
} from './agent-account.ts'

export const agentBAccount: AgentAccount = { check, findLogin }

// ---- checks --------------------------------------------------------------------------------------------------------

const API = 'https://api.openai.com'

async function check(agent: ServiceConfig['agent'], ports: AgentCheckPorts): Promise<Result<string>> {
  if (agent.agentBApiKey) return checkKey(agent.agentBApiKey, ports)
  return agent.agentBLogin ? checkLoginFile(agent.agentBLogin) : NO_KEY
}

async function checkKey(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const headers = { authorization: `Bearer ${key}` }
  const reply = await getFromVendor(ports, `${ports.baseUrls?.agentB ?? API}/v1/models`, headers)
  if (!reply.ok) return reply
  // A restricted key may lack the right to list models. The vendor knows it, and only that matters.
  const isRestrictedKey =
    reply.value.status === 403 && /missing scopes/i.test(vendorReason(reply.value) ?? '')
  if (isRestrictedKey) return yes('a restricted API key of OpenAI')
  return keyCheckResult({ vendor: 'OpenAI', key }, reply.value, ports)
}

/** Checks a login, which is the whole file: Codex on a worker reads it unchanged. Returns its owner. */
function checkLoginFile(text: string): Result<string> {
  const fields = fieldsIn(text)
  if (!hasTokens(fields)) return no('invalid', 'this is no login of Codex: the text of its auth.json is')
  const claims = decodeClaims(textAt(asFields(fields?.tokens), 'id_token'))
  const plan = textAt(asFields(claims?.['https://api.openai.com/auth']), 'chatgpt_plan_type')
  const email = textAt(claims, 'email')
  return yes(`ChatGPT${parenthesized(plan)}${email === undefined ? '' : `, ${quoted(email)}`}`)
}

function hasTokens(fields: ReplyFields | undefined): boolean {
  return textAt(asFields(fields?.tokens), 'refresh_token') !== undefined
}

/** Decodes a token's claims without verifying its signature. */
function decodeClaims(token: string | undefined): ReplyFields | undefined {
  const middle = token?.split('.')[1]
  return middle === undefined ? undefined : fieldsIn(Buffer.from(middle, 'base64url').toString('utf8'))
}

// ---- the login of this machine -------------------------------------------------------------------------------------

const ADVICE = 'run codex login on this machine and connect again'
const FOLDER_VARIABLE = 'CODEX_HOME'
const STATUS_COMMAND = { name: 'codex', args: ['login', 'status'], folderVariable: FOLDER_VARIABLE }

async function findLogin(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const status = await runAgentCommand(STATUS_COMMAND, ports)
  if (!status.ok) return loginRefusal('Codex', status.refusal.message, ADVICE)
  if (status.value.code !== 0) return loginRefusal('Codex', 'nobody is logged in on this machine', ADVICE)
  const folder = configFolder(ports.environment, FOLDER_VARIABLE, '.codex')
  const text = folder === undefined ? undefined : await readOwnFile(join(folder, 'auth.json'), ports.uid)
  if (text === undefined || text.length > LOGIN_CHARS_MAX) {
    const advice = `set cli_auth_credentials_store = "file" in its config.toml, ${ADVICE}`
    return loginRefusal('Codex', 'its login is in no file that can be handed on', advice)
  }
  const key = readKey(text)
  return key === undefined ? readLogin(text) : foundKey(key, ports)
}

/** Returns the API key in the file; undefined when the file holds a real login or no key. */
function readKey(text: string): string | undefined {
  const fields = fieldsIn(text)
  const key = textAt(fields, 'OPENAI_API_KEY')
  return hasTokens(fields) || !isCredential(key) ? undefined : key
}

function readLogin(text: string): Result<FoundLogin> {
  const login = checkLoginFile(text)
  if (!login.ok) return loginRefusal('Codex', 'its file holds no login', ADVICE)
  return yes({ detail: login.value, credential: { agentBLogin: text } })
}

async function foundKey(key: string, ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>> {
  const checked = await checkKey(key, ports)
  return checked.ok
    ? yes({ detail: `${checked.value}, of Codex`, credential: { agentBApiKey: key } })
    : checked
}

/**
 * Whether a key of an agent's vendor works: one small question that costs nothing, with the key in its own header.
 *
 * A login that was copied from a machine is not asked about: what it is good for shows in the first run, and asking
 * would use it up or refresh it under its owner's feet. Of those only the form is looked at.
 */

import type { Clock } from '../../core/ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { AgentProvider, ServiceConfig } from '../../protocol/config.ts'
import type { Http, HttpReply } from '../http/http.ts'
import { readCodexLoginFile, readGeminiLoginFile } from './login-files.ts'
import {
  asFields,
  fieldsIn,
  isTooManyRequests,
  quoted,
  textAt,
  tooManyRequests,
  unexpectedStatus,
} from './reply-fields.ts'

export interface AgentCheckPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Other addresses of the vendors' APIs, each without a slash at its end. */
  readonly baseUrls?: Readonly<Partial<Record<AgentProvider, string>>>
}

const DEFAULT_BASE_URLS: Readonly<Record<AgentProvider, string>> = {
  agentA: 'https://api.anthropic.com',
  agentB: 'https://api.openai.com',
  agentC: 'https://generativelanguage.googleapis.com',
}
/** A network that fails for a moment is no reason to send a person away. */
const TRIES = 2
const CHECK_NETWORK_ADVICE = 'see that this machine reaches the vendor itself'

export async function checkAgent(
  { agent }: ServiceConfig,
  provider: AgentProvider,
  ports: AgentCheckPorts,
): Promise<Result<string>> {
  if (provider === 'agentA') return checkClaude(agent.agentAApiKey || agent.agentAOauthToken || '', ports)
  if (provider === 'agentB') {
    if (agent.agentBApiKey) return checkOpenAi(agent.agentBApiKey, ports)
    return agent.agentBLogin ? readCodexLoginFile(agent.agentBLogin) : NO_KEY
  }
  if (agent.agentCApiKey) return checkGemini(agent.agentCApiKey, ports)
  return agent.agentCLogin ? readGeminiLoginFile(agent.agentCLogin) : NO_KEY
}

const NO_KEY = no('invalid', 'there is no key to check; give one')

/** In which field of the configuration a value belongs that somebody gave as agentA's key. */
export function agentAField(value: string): 'agentAApiKey' | 'agentAOauthToken' {
  return value.startsWith('sk-ant-oat') ? 'agentAOauthToken' : 'agentAApiKey'
}

// ---- Claude Code ---------------------------------------------------------------------------------------------------

const SETUP_TOKEN = /^sk-ant-oat\d{2}-[\w-]{20,}$/
const ANTHROPIC_VERSION = '2023-06-01'

async function checkClaude(value: string, ports: AgentCheckPorts): Promise<Result<string>> {
  if (value === '') return NO_KEY
  if (value.startsWith('sk-ant-ort')) {
    return no('invalid', 'this is the part of a login that renews it, not a key; run: claude setup-token')
  }
  // It may be used for a model and for nothing else, so there is no question that it could answer.
  if (agentAField(value) === 'agentAOauthToken') {
    return SETUP_TOKEN.test(value)
      ? yes('a token of Claude Code; its first run shows whether it is still good')
      : no('invalid', 'this token of Claude Code is cut short; copy all of what claude setup-token printed')
  }
  const headers = { 'x-api-key': value, 'anthropic-version': ANTHROPIC_VERSION }
  const reply = await get(ports, 'agentA', '/v1/models?limit=1', headers)
  return reply.ok ? resultOf({ vendor: 'Anthropic', key: value }, reply.value, ports) : reply
}

// ---- Codex ---------------------------------------------------------------------------------------------------------

async function checkOpenAi(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const reply = await get(ports, 'agentB', '/v1/models', { authorization: `Bearer ${key}` })
  if (!reply.ok) return reply
  // A key that may do a few things only need not be allowed to list models; that it is known is what was asked.
  const isRestrictedKey = reply.value.status === 403 && /missing scopes/i.test(reasonIn(reply.value) ?? '')
  if (isRestrictedKey) return yes('a restricted API key of OpenAI')
  return resultOf({ vendor: 'OpenAI', key }, reply.value, ports)
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

async function checkGemini(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const reply = await get(ports, 'agentC', '/v1beta/models?pageSize=1', { 'x-goog-api-key': key })
  if (!reply.ok) return reply
  // Said with 400, like a question that is wrong itself; but this one is not.
  if (reply.value.status === 400) return keyRefusal('Google', reply.value, key)
  return resultOf({ vendor: 'Google', key }, reply.value, ports)
}

// ---- what the answers mean -----------------------------------------------------------------------------------------

function get(
  { http, baseUrls: bases }: AgentCheckPorts,
  provider: AgentProvider,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Result<HttpReply>> {
  const url = `${bases?.[provider] ?? DEFAULT_BASE_URLS[provider]}${path}`
  const commonHeaders = { accept: 'application/json', 'user-agent': 'switchyard' }
  return http.send({ method: 'GET', url, tries: TRIES, headers: { ...commonHeaders, ...headers } })
}

interface CheckedKey {
  readonly vendor: string
  readonly key: string
}

function resultOf({ vendor, key }: CheckedKey, reply: HttpReply, { clock }: AgentCheckPorts): Result<string> {
  if (reply.status === 200) return yes(`an API key of ${vendor}`)
  if (isTooManyRequests(reply)) return tooManyRequests(vendor, reply, clock.now())
  if (reply.status === 401 || reply.status === 403) return keyRefusal(vendor, reply, key)
  return unexpectedStatus(vendor, reply.status, CHECK_NETWORK_ADVICE)
}

/** Their reason may repeat the key. */
function keyRefusal(vendor: string, reply: HttpReply, key: string): Refused {
  const reason = reasonIn(reply)?.replaceAll(key, '***')
  return no(
    'unauthorized',
    `${vendor} does not take this key${reason === undefined ? '' : ` (${quoted(reason)})`}`,
  )
}

function reasonIn(reply: HttpReply): string | undefined {
  return textAt(asFields(fieldsIn(reply.text)?.error), 'message')
}

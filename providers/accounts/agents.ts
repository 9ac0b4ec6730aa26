/**
 * checkAgent tests a key of an agent's vendor with one small request that costs nothing.
 *
 * For a login copied from a machine only the form is checked: a request could use it up or refresh it while its owner
 * uses it. The first run shows whether such a login works.
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
  /** Replaces addresses of the vendors' APIs; without a trailing slash. */
  readonly baseUrls?: Readonly<Partial<Record<AgentProvider, string>>>
}

const DEFAULT_BASE_URLS: Readonly<Record<AgentProvider, string>> = {
  agentA: 'https://api.anthropic.com',
  agentB: 'https://api.openai.com',
  agentC: 'https://generativelanguage.googleapis.com',
}
/** A second try, so that a short network failure is not shown to the person. */
const TRIES = 2
const CHECK_NETWORK_ADVICE = 'check that this machine can reach the vendor'

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

/** Returns the configuration field for a value that was given as agentA's key. */
export function agentAField(value: string): 'agentAApiKey' | 'agentAOauthToken' {
  return value.startsWith('sk-ant-oat') ? 'agentAOauthToken' : 'agentAApiKey'
}

// ---- Claude Code ---------------------------------------------------------------------------------------------------

const SETUP_TOKEN = /^sk-ant-oat\d{2}-[\w-]{20,}$/
const ANTHROPIC_VERSION = '2023-06-01'

async function checkClaude(value: string, ports: AgentCheckPorts): Promise<Result<string>> {
  if (value === '') return NO_KEY
  if (value.startsWith('sk-ant-ort')) {
    return no('invalid', 'this is the refresh token of a login, not a key; run: claude setup-token')
  }
  // The token is valid for model requests only, so no free request can test it.
  if (agentAField(value) === 'agentAOauthToken') {
    return SETUP_TOKEN.test(value)
      ? yes('a token of Claude Code; its first run shows whether it is still good')
      : no(
          'invalid',
          'this token of Claude Code is incomplete; copy everything that claude setup-token printed',
        )
  }
  const headers = { 'x-api-key': value, 'anthropic-version': ANTHROPIC_VERSION }
  const reply = await get(ports, 'agentA', '/v1/models?limit=1', headers)
  return reply.ok ? resultOf({ vendor: 'Anthropic', key: value }, reply.value, ports) : reply
}

// ---- Codex ---------------------------------------------------------------------------------------------------------

async function checkOpenAi(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const reply = await get(ports, 'agentB', '/v1/models', { authorization: `Bearer ${key}` })
  if (!reply.ok) return reply
  // A restricted key may lack the right to list models. The vendor knows it, and only that matters.
  const isRestrictedKey = reply.value.status === 403 && /missing scopes/i.test(reasonIn(reply.value) ?? '')
  if (isRestrictedKey) return yes('a restricted API key of OpenAI')
  return resultOf({ vendor: 'OpenAI', key }, reply.value, ports)
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

async function checkGemini(key: string, ports: AgentCheckPorts): Promise<Result<string>> {
  const reply = await get(ports, 'agentC', '/v1beta/models?pageSize=1', { 'x-goog-api-key': key })
  if (!reply.ok) return reply
  // Google reports a wrong key with 400. The request itself is valid, so the key is the cause.
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

/** Redacts the key from the vendor's reason, which may repeat it. */
function keyRefusal(vendor: string, reply: HttpReply, key: string): Refused {
  const reason = reasonIn(reply)?.replaceAll(key, '***')
  return no(
    'unauthorized',
    `${vendor} does not accept this key${reason === undefined ? '' : ` (${quoted(reason)})`}`,
  )
}

function reasonIn(reply: HttpReply): string | undefined {
  return textAt(asFields(fieldsIn(reply.text)?.error), 'message')
}

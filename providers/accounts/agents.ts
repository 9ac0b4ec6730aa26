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
import { codexLogin, geminiLogin } from './login-files.ts'
import { asFields, fieldsIn, isTooOften, said, textAt, tooOften, unexpected } from './reply-fields.ts'

export interface AgentsParts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Other addresses of the vendors' APIs, each without a slash at its end. */
  readonly bases?: Readonly<Partial<Record<AgentProvider, string>>>
}

const BASES: Readonly<Record<AgentProvider, string>> = {
  agentA: 'https://api.anthropic.com',
  agentB: 'https://api.openai.com',
  agentC: 'https://generativelanguage.googleapis.com',
}
/** A network that fails for a moment is no reason to send a person away. */
const TRIES = 2
const CURE = 'see that this machine reaches the vendor itself'

export async function checkAgent(
  { agent }: ServiceConfig,
  provider: AgentProvider,
  parts: AgentsParts,
): Promise<Result<string>> {
  if (provider === 'agentA') return checkClaude(agent.agentAApiKey || agent.agentAOauthToken || '', parts)
  if (provider === 'agentB') {
    if (agent.agentBApiKey) return checkOpenAi(agent.agentBApiKey, parts)
    return agent.agentBLogin ? codexLogin(agent.agentBLogin) : NOTHING
  }
  if (agent.agentCApiKey) return checkGemini(agent.agentCApiKey, parts)
  return agent.agentCLogin ? geminiLogin(agent.agentCLogin) : NOTHING
}

const NOTHING = no('invalid', 'there is no key to check; give one')

/** In which field of the configuration a value belongs that somebody gave as agentA's key. */
export function placeOfKey(value: string): 'agentAApiKey' | 'agentAOauthToken' {
  return value.startsWith('sk-ant-oat') ? 'agentAOauthToken' : 'agentAApiKey'
}

// ---- Claude Code ---------------------------------------------------------------------------------------------------

const SETUP_TOKEN = /^sk-ant-oat\d{2}-[\w-]{20,}$/
const ANTHROPIC_VERSION = '2023-06-01'

async function checkClaude(value: string, parts: AgentsParts): Promise<Result<string>> {
  if (value === '') return NOTHING
  if (value.startsWith('sk-ant-ort')) {
    return no('invalid', 'this is the part of a login that renews it, not a key; run: claude setup-token')
  }
  // It may be used for a model and for nothing else, so there is no question that it could answer.
  if (placeOfKey(value) === 'agentAOauthToken') {
    return SETUP_TOKEN.test(value)
      ? yes('a token of Claude Code; its first run shows whether it is still good')
      : no('invalid', 'this token of Claude Code is cut short; copy all of what claude setup-token printed')
  }
  const headers = { 'x-api-key': value, 'anthropic-version': ANTHROPIC_VERSION }
  const reply = await get(parts, 'agentA', '/v1/models?limit=1', headers)
  return reply.ok ? meaning({ who: 'Anthropic', key: value }, reply.value, parts) : reply
}

// ---- Codex ---------------------------------------------------------------------------------------------------------

async function checkOpenAi(key: string, parts: AgentsParts): Promise<Result<string>> {
  const reply = await get(parts, 'agentB', '/v1/models', { authorization: `Bearer ${key}` })
  if (!reply.ok) return reply
  // A key that may do a few things only need not be allowed to list models; that it is known is what was asked.
  const isRestricted = reply.value.status === 403 && /missing scopes/i.test(reasonIn(reply.value) ?? '')
  if (isRestricted) return yes('a restricted API key of OpenAI')
  return meaning({ who: 'OpenAI', key }, reply.value, parts)
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

async function checkGemini(key: string, parts: AgentsParts): Promise<Result<string>> {
  const reply = await get(parts, 'agentC', '/v1beta/models?pageSize=1', { 'x-goog-api-key': key })
  if (!reply.ok) return reply
  // Said with 400, like a question that is wrong itself; but this one is not.
  if (reply.value.status === 400) return refusedKey('Google', reply.value, key)
  return meaning({ who: 'Google', key }, reply.value, parts)
}

// ---- what the answers mean -----------------------------------------------------------------------------------------

function get(
  { http, bases }: AgentsParts,
  provider: AgentProvider,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Result<HttpReply>> {
  const url = `${bases?.[provider] ?? BASES[provider]}${path}`
  const plain = { accept: 'application/json', 'user-agent': 'switchyard' }
  return http.send({ method: 'GET', url, tries: TRIES, headers: { ...plain, ...headers } })
}

interface Asked {
  readonly who: string
  readonly key: string
}

function meaning({ who, key }: Asked, reply: HttpReply, { clock }: AgentsParts): Result<string> {
  if (reply.status === 200) return yes(`an API key of ${who}`)
  if (isTooOften(reply)) return tooOften(who, reply, clock.now())
  if (reply.status === 401 || reply.status === 403) return refusedKey(who, reply, key)
  return unexpected(who, reply.status, CURE)
}

/** Their reason may repeat the key. */
function refusedKey(who: string, reply: HttpReply, key: string): Refused {
  const why = reasonIn(reply)?.replaceAll(key, '***')
  return no('unauthorized', `${who} does not take this key${why === undefined ? '' : ` (${said(why)})`}`)
}

function reasonIn(reply: HttpReply): string | undefined {
  return textAt(asFields(fieldsIn(reply.text)?.error), 'message')
}

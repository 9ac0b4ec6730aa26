/**
 * `ModelAccess` says for one credential of an agent: which vendor's API takes it, on which paths, in which headers.
 *
 * The credential itself stays with the worker. The agent gets a placeholder of the same form, so that its program
 * behaves as with the credential: the same login, the same limits, the same prices.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { RunCredentials } from '../../protocol/frames.ts'
import { isObject, parseObject, textAt } from '../agents/json-lines.ts'

export type AgentCredential = NonNullable<RunCredentials['agent']>

export interface ModelRoute {
  readonly method: 'GET' | 'POST'
  readonly path: RegExp
}

/** The forms in which vendors word an error. */
export type ModelErrorStyle = 'anthropic' | 'openai' | 'google'

export interface ModelAccess {
  /** The only origin that the credential is sent to. */
  readonly origin: string
  /** The agent's program puts it in front of all paths. */
  readonly basePath: string
  readonly routes: readonly ModelRoute[]
  readonly errorStyle: ModelErrorStyle
  /** The headers of a request, by the vendor's own headers that the agent sent. They replace those of the same name. */
  credentialHeaders(sent: Readonly<Record<string, string>>): Readonly<Record<string, string>>
  /** The parts of the credential that must not appear in an answer. */
  readonly secrets: readonly string[]
  readonly placeholder: AgentCredential
}

/** Refuses a credential that works only inside the sandbox, and one that has expired. `now`: wall milliseconds. */
export type OpenModelAccess = (credential: AgentCredential, now: number) => Result<ModelAccess>

/** Finds the vendor's API for an agent's credential. Each agent has one vendor. */
export function openModelAccess(
  provider: AgentProvider,
  credential: AgentCredential,
  now: number,
): Result<ModelAccess> {
  return VENDORS[provider](credential, now)
}

const MODEL_HOSTS: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: ['api.anthropic.com:443'],
  // A plan's login works at its own address, and renews itself at the third.
  agentB: ['api.openai.com:443', 'chatgpt.com:443', 'auth.openai.com:443'],
  // A login works at the second, and renews itself at the third.
  agentC: [
    'generativelanguage.googleapis.com:443',
    'cloudcode-pa.googleapis.com:443',
    'oauth2.googleapis.com:443',
  ],
}

/**
 * Lists the hosts that an agent's program contacts itself when its credential lies in the sandbox.
 *
 * A credential outside needs none of them: the worker's proxy contacts the vendor. Entries have the form of
 * `sandbox.allowedHosts`.
 */
export function modelHosts(provider: AgentProvider): readonly string[] {
  return MODEL_HOSTS[provider]
}

/** A key is the first line of its text. Other characters could end the header and begin another. */
export function readKeyLine(value: string): Result<string> {
  const [line = ''] = value.trim().split('\n')
  const key = line.trim()
  return /^[!-~]+$/.test(key) ? yes(key) : no('invalid', 'it is empty, or has characters that no key has')
}

// ---- OpenAI --------------------------------------------------------------------------------------------------------

const API = 'https://api.openai.com'
const PLAN = 'https://chatgpt.com'
const PLAN_PATH = '/backend-api/codex'
const CLAIMS = 'https://api.openai.com/auth'

/**
 * The API of agentB, Codex: a key at the vendor's API, or the login of a ChatGPT plan at the plan's own address.
 *
 * The worker never renews a login. Renewing replaces the renewal token, which would end the login of its owner and of
 * every other worker; so a login works until its access token expires.
 */
export const openOpenaiAccess: OpenModelAccess = (credential, now) => {
  if (credential.kind !== 'login') return openKeyAccess(credential.value)
  const file = parseObject(credential.value)
  const tokens = isObject(file?.tokens) ? file.tokens : undefined
  const key = file === undefined ? undefined : textAt(file, 'OPENAI_API_KEY')
  if (tokens === undefined && key !== undefined) return openKeyAccess(key)
  return openPlanAccess(tokens ?? {}, now)
}

function openKeyAccess(value: string): Result<ModelAccess> {
  const read = readKeyLine(value)
  if (!read.ok) return read
  return yes({
    origin: API,
    basePath: '/v1',
    routes: routesBelow('/v1'),
    errorStyle: 'openai',
    credentialHeaders: () => ({ authorization: `Bearer ${read.value}` }),
    secrets: [read.value],
    placeholder: { kind: 'api-key', value: 'sk-placeholder-the-worker-adds-the-key' },
  })
}

function openPlanAccess(tokens: Readonly<Record<string, unknown>>, now: number): Result<ModelAccess> {
  const access = readKeyLine(textAt(tokens, 'access_token') ?? '')
  if (!access.ok) return no('invalid', 'this is no login of Codex: the text of its auth.json is')
  const idClaims = claimsOf(textAt(tokens, 'id_token'))
  const account =
    textAt(tokens, 'account_id') ?? textAt(asObject(idClaims[CLAIMS]), 'chatgpt_account_id') ?? ''
  const { exp } = claimsOf(access.value)
  if (typeof exp === 'number' && exp * 1000 <= now)
    return no('invalid', `this login expired at ${instantOf(exp)}; run codex login and connect again`)
  const secrets = ['access_token', 'refresh_token', 'id_token'].flatMap((name) => textAt(tokens, name) ?? [])
  return yes({
    origin: PLAN,
    basePath: PLAN_PATH,
    routes: routesBelow(PLAN_PATH),
    errorStyle: 'openai',
    credentialHeaders: () => ({
      authorization: `Bearer ${access.value}`,
      ...(/^[\w-]+$/.test(account) ? { 'chatgpt-account-id': account } : {}),
    }),
    secrets,
    placeholder: planPlaceholder(textAt(asObject(idClaims[CLAIMS]), 'chatgpt_plan_type'), now),
  })
}

function routesBelow(path: string): readonly ModelRoute[] {
  return [
    { method: 'POST', path: new RegExp(`^${path}/responses(/compact)?$`) },
    { method: 'GET', path: new RegExp(`^${path}/models$`) },
  ]
}

// ---- the file of an OpenAI login -----------------------------------------------------------------------------------

const DAY_MS = 86_400_000
/** Far enough away that the program in the sandbox never tries to renew the placeholder. */
const PLACEHOLDER_DAYS = 365

/** A login file of the same form: tokens without a signature that nobody accepts. */
function planPlaceholder(plan: string | undefined, now: number): AgentCredential {
  const account = '00000000-0000-4000-8000-000000000000'
  const exp = Math.floor((now + PLACEHOLDER_DAYS * DAY_MS) / 1000)
  const claims = { chatgpt_account_id: account, ...(plan === undefined ? {} : { chatgpt_plan_type: plan }) }
  const token = unsignedToken({ exp, [CLAIMS]: claims })
  const tokens = { id_token: token, access_token: token, refresh_token: 'placeholder', account_id: account }
  const file = {
    auth_mode: 'chatgpt',
    OPENAI_API_KEY: null,
    tokens,
    last_refresh: new Date(now).toISOString(),
  }
  return { kind: 'login', value: JSON.stringify(file) }
}

function unsignedToken(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [part({ alg: 'none', typ: 'JWT' }), part(claims), part({ placeholder: true })].join('.')
}

/** Reads a token's claims without verifying its signature; the vendor does that. */
function claimsOf(token: string | undefined): Readonly<Record<string, unknown>> {
  const middle = token?.split('.')[1]
  return middle === undefined ? {} : (parseObject(Buffer.from(middle, 'base64url').toString('utf8')) ?? {})
}

const asObject = (value: unknown): Readonly<Record<string, unknown>> => (isObject(value) ? value : {})

function instantOf(seconds: number): string {
  const ms = seconds * 1000
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : 'an unknown time'
}

// ---- Anthropic -----------------------------------------------------------------------------------------------------

const ANTHROPIC_ORIGIN = 'https://api.anthropic.com'
const ANTHROPIC_ROUTES: readonly ModelRoute[] = [
  { method: 'POST', path: /^\/v1\/messages(\/count_tokens)?$/ },
  { method: 'GET', path: /^\/v1\/models(\/[\w.-]+)?$/ },
]
/** A token of a subscription works only with this value, which the agent's program adds itself. */
const OAUTH_BETA = 'oauth-2025-04-20'
const TOKEN_PREFIX = 'sk-ant-oat'

/** The API of agentA, Claude Code: a key or the token of a subscription, at the same address. */
export const openAnthropicAccess: OpenModelAccess = ({ kind, value }) => {
  const read = readKeyLine(value)
  if (!read.ok) return read
  const key = read.value
  const api = {
    origin: ANTHROPIC_ORIGIN,
    basePath: '',
    routes: ANTHROPIC_ROUTES,
    errorStyle: 'anthropic',
    secrets: [key],
  } as const
  if (kind === 'api-key' && !key.startsWith(TOKEN_PREFIX)) {
    const placeholder = { kind, value: 'sk-ant-api03-placeholder-the-worker-adds-the-key' } as const
    return yes({ ...api, credentialHeaders: () => ({ 'x-api-key': key }), placeholder })
  }
  return yes({
    ...api,
    credentialHeaders: (sent) => ({
      authorization: `Bearer ${key}`,
      'anthropic-beta': withBeta(sent['anthropic-beta'] ?? ''),
    }),
    placeholder: { kind: 'oauth-token', value: `${TOKEN_PREFIX}01-placeholder-the-worker-adds-the-token` },
  })
}

function withBeta(sent: string): string {
  const names = sent.split(',').map((name) => name.trim())
  return [...new Set([...names.filter(Boolean), OAUTH_BETA])].join(',')
}

// ---- Google --------------------------------------------------------------------------------------------------------

const GOOGLE_ORIGIN = 'https://generativelanguage.googleapis.com'
const GOOGLE_ROUTES: readonly ModelRoute[] = [
  {
    method: 'POST',
    path: /^\/v1(beta|alpha)?\/models\/[\w.-]+:(generateContent|streamGenerateContent|countTokens)$/,
  },
  { method: 'GET', path: /^\/v1(beta|alpha)?\/models(\/[\w.-]+)?$/ },
]

/** The API of agentC, Gemini CLI: a key. Its login renews itself and works at addresses that no setting changes. */
export const openGoogleAccess: OpenModelAccess = ({ kind, value }) => {
  if (kind === 'login') return no('invalid', 'this login works only inside the sandbox')
  const read = readKeyLine(value)
  if (!read.ok) return read
  return yes({
    origin: GOOGLE_ORIGIN,
    basePath: '',
    routes: GOOGLE_ROUTES,
    errorStyle: 'google',
    credentialHeaders: () => ({ 'x-goog-api-key': read.value }),
    secrets: [read.value],
    placeholder: { kind: 'api-key', value: 'placeholder-the-worker-adds-the-key' },
  })
}

// ---- all vendors ---------------------------------------------------------------------------------------------------

const VENDORS: Readonly<Record<AgentProvider, OpenModelAccess>> = {
  agentA: openAnthropicAccess,
  agentB: openOpenaiAccess,
  agentC: openGoogleAccess,
}

/**
 * The API of agentB, Codex: a key at the vendor's API, or the login of a ChatGPT plan at the plan's own address.
 *
 * The worker never renews a login. Renewing replaces the renewal token, which would end the login of its owner and of
 * every other worker; so a login works until its access token expires.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { isObject, parseObject, textAt } from '../agents/json-lines.ts'
import {
  type AgentCredential,
  type ModelAccess,
  type ModelRoute,
  type OpenModelAccess,
  readKeyLine,
} from './model-access.ts'

const API = 'https://api.openai.com'
const PLAN = 'https://chatgpt.com'
const PLAN_PATH = '/backend-api/codex'
const CLAIMS = 'https://api.openai.com/auth'

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

// ---- the login's file --------------------------------------------------------------------------------------------

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

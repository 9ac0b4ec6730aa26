/** GitHub's device flow: shows a code, and answers polls until a person has entered it. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type GithubReply, RawBody } from './replies.ts'
import type { GithubWorld } from './world.ts'

export interface DeviceSettings {
  clientId: string
  /** Setting of the application. */
  enabled: boolean
  intervalSeconds: number
  expiresInSeconds: number
}

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const SLOW_DOWN_SECONDS = 5
const ERRORS_AT =
  'https://docs.github.com/developers/apps/authorizing-oauth-apps#error-codes-for-the-device-flow'

interface PendingDevice {
  readonly deviceCode: string
  readonly userCode: string
  readonly scopes: readonly string[]
  readonly expiresMs: number
  intervalSeconds: number
  polledMs: number
  /** The login of the person who approved, or `denied`. */
  verdict: { readonly login: string } | 'denied' | undefined
}

const SENTENCES: Readonly<Record<string, string>> = {
  authorization_pending: 'The authorization request is still pending.',
  slow_down: 'Too many requests have been made in the same timeframe.',
  expired_token: 'The device_code has expired.',
  access_denied: 'The authorization request was denied.',
  incorrect_device_code: 'The device_code provided is not valid.',
  incorrect_client_credentials: 'The client_id and/or client_secret passed are incorrect.',
  unsupported_grant_type: 'The grant_type is not supported.',
  device_flow_disabled: 'Device Flow must be explicitly enabled for this App',
}

export class FakeDeviceFlow {
  readonly settings: DeviceSettings = {
    clientId: 'Iv1.switchyard',
    enabled: true,
    intervalSeconds: 5,
    expiresInSeconds: 900,
  }
  /** Number of token requests, early ones included. */
  polls = 0
  readonly #world: GithubWorld
  readonly #codes = new Map<string, PendingDevice>()

  constructor(world: GithubWorld) {
    this.#world = world
  }

  /** Issued user codes, newest last. */
  get userCodes(): string[] {
    return [...this.#codes.values()].map(({ userCode }) => userCode)
  }

  /** Approves a code on behalf of a person. */
  approve(userCode: string, login: string): void {
    this.#decide(userCode, { login })
  }

  deny(userCode: string): void {
    this.#decide(userCode, 'denied')
  }

  #decide(userCode: string, verdict: PendingDevice['verdict']): void {
    const code = [...this.#codes.values()].find((candidate) => candidate.userCode === userCode)
    if (code === undefined) throw new Error(`nobody was shown the code ${userCode}`)
    code.verdict = verdict
  }

  answer(method: string, path: string, text: string, request: IncomingMessage): GithubReply {
    const form = formOf(text, request.headers['content-type'] ?? '')
    const reply = method === 'POST' ? this.#post(path, form) : { status: 404, body: { error: 'Not Found' } }
    return (request.headers.accept ?? '').includes('json') ? reply : asForm(reply)
  }

  #post(path: string, form: URLSearchParams): GithubReply {
    if (path === '/login/device/code') return this.#start(form)
    if (path === '/login/oauth/access_token') return this.#poll(form)
    return { status: 404, body: { error: 'Not Found' } }
  }

  #start(form: URLSearchParams): GithubReply {
    if (form.get('client_id') !== this.settings.clientId) return { status: 404, body: { error: 'Not Found' } }
    if (!this.settings.enabled) return failure('device_flow_disabled')
    const code: PendingDevice = {
      deviceCode: randomBytes(20).toString('hex'),
      userCode: userCode(),
      scopes: (form.get('scope') ?? '').split(/[ ,]+/).filter(Boolean),
      expiresMs: this.#world.now() + this.settings.expiresInSeconds * 1000,
      intervalSeconds: this.settings.intervalSeconds,
      polledMs: this.#world.now(),
      verdict: undefined,
    }
    this.#codes.set(code.deviceCode, code)
    return {
      status: 200,
      body: {
        device_code: code.deviceCode,
        user_code: code.userCode,
        verification_uri: 'https://github.com/login/device',
        expires_in: this.settings.expiresInSeconds,
        interval: code.intervalSeconds,
      },
    }
  }

  #poll(form: URLSearchParams): GithubReply {
    this.polls++
    if (form.get('client_id') !== this.settings.clientId) return failure('incorrect_client_credentials')
    if (form.get('grant_type') !== GRANT) return failure('unsupported_grant_type')
    const code = this.#codes.get(form.get('device_code') ?? '')
    if (code === undefined) return failure('incorrect_device_code')
    const now = this.#world.now()
    if (now >= code.expiresMs) return failure('expired_token')
    const early = now - code.polledMs < code.intervalSeconds * 1000
    code.polledMs = now
    if (early) code.intervalSeconds += SLOW_DOWN_SECONDS
    if (early) return failure('slow_down', { interval: code.intervalSeconds })
    if (code.verdict === undefined) return failure('authorization_pending')
    this.#codes.delete(code.deviceCode)
    return code.verdict === 'denied' ? failure('access_denied') : this.#token(code, code.verdict.login)
  }

  #token({ scopes }: PendingDevice, login: string): GithubReply {
    const value = `gho_${randomBytes(18).toString('hex')}`
    this.#world.addToken(login, { value, scopes })
    return { status: 200, body: { access_token: value, token_type: 'bearer', scope: scopes.join(',') } }
  }
}

/** Failures of the flow have status 200. */
function failure(error: string, more: Record<string, unknown> = {}): GithubReply {
  const body = { error, error_description: SENTENCES[error] ?? error, error_uri: ERRORS_AT, ...more }
  return { status: 200, body }
}

function userCode(): string {
  const letters = 'BCDFGHJKLMNPQRSTVWXZ'
  const four = (): string => [...randomBytes(4)].map((byte) => letters[byte % letters.length]).join('')
  return `${four()}-${four()}`
}

function formOf(text: string, type: string): URLSearchParams {
  if (!type.includes('json')) return new URLSearchParams(text)
  try {
    return new URLSearchParams(JSON.parse(text))
  } catch {
    return new URLSearchParams()
  }
}

/** GitHub answers form-encoded unless JSON is accepted. */
function asForm({ status, body }: GithubReply): GithubReply {
  const fields = Object.entries(body ?? {}).map(([name, value]): [string, string] => [name, String(value)])
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' }
  return { status, body: new RawBody(new URLSearchParams(fields).toString()), headers }
}

/**
 * OauthRedirects holds the redirect flows with their secrets and the callbacks that wait for a result, and sends the
 * flows' requests to the tracker: exchange the code, then check the tokens.
 *
 * The verifier and the tokens stay in the flow's record from one reply to the next request, and no longer.
 * The `state` parameter is 256 random bits, and only its hash is kept. A callback with an unknown state exchanges
 * nothing and ends no flow, so a forged address has no effect.
 */
import { hashSecret, isSameHash } from '../../core/fleet/token.ts'
import type { RedirectAuthorization, TokenPair } from '../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { type ConnectResponse, TrackerCallbackQuery } from '../../protocol/connect.ts'
import { createQueryReader } from '../../protocol/query.ts'
import { routes } from '../../protocol/routes.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import type { AccountPorts, ConnectAttempt, CredentialWriter } from './credential-writer.ts'
import { isWebPage, PROVIDER_NAMES, safeText, startRefusal } from './messages.ts'
import {
  OAUTH_REDIRECT,
  type OauthRedirectEffect,
  type OauthRedirectEvent,
  type OauthRedirectInput,
} from './oauth-redirect.machine.ts'
import type { ProviderRequests } from './provider-requests.ts'

/** Time limit for an authorization by redirect. */
export const REDIRECT_FLOW_MS_MAX = 10 * 60_000
/** Redirect authorizations in progress at once; above this the oldest is forgotten. */
export const REDIRECT_FLOWS_MAX = 8

const STATE_BYTES = 32
/** How long a flow's outcome is kept for late or repeated callbacks. */
const OUTCOME_KEPT_MS = 10 * 60_000
/** The number of callbacks that may wait for one flow. */
const PENDING_CALLBACKS_MAX = 16

export const CONNECT_AGAIN = 'connect the tracker again'
const CONNECT_FAILED = `connecting the tracker failed; ${CONNECT_AGAIN}`
const UNKNOWN_STATE = `this address belongs to no open connection attempt: it is too old, it is not from this service, or the service was restarted; ${CONNECT_AGAIN}`
const WITHOUT_CODE = `this address holds no code from the tracker; ${CONNECT_AGAIN}`
const CONSENT_REFUSED = `consent was refused, and nothing was changed; ${CONNECT_AGAIN} if that was a mistake`
const EVICTED = `too many connection attempts were started, and this one was dropped; ${CONNECT_AGAIN}`
const NO_PORT = no('unavailable', 'the service is still starting; try again in a moment')

interface OauthRedirect {
  readonly key: string
  readonly attempt: ConnectAttempt
  readonly stateHash: string
  readonly port: number
  /** The callbacks that wait for the result, each with its code; only the first code is used. */
  readonly callbacks: PendingRequests<string, string>
  verifier: string | undefined
  tokens: TokenPair | undefined
}

export class OauthRedirects {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter
  /** By actor key, oldest first. */
  readonly #redirects = new Map<string, OauthRedirect>()

  constructor(ports: AccountPorts, requests: ProviderRequests, writer: CredentialWriter) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
  }

  get size(): number {
    return this.#redirects.size
  }

  async start(): Promise<Result<ConnectResponse>> {
    const { accounts, config, port: readPort } = this.#ports
    const port = readPort()
    if (port === undefined) return NO_PORT
    const attempt = this.#writer.beginConnect('tracker')
    const state = this.#createState()
    const authorized = await this.#requests.request(PROVIDER_NAMES.tracker, () =>
      accounts.authorizeTracker(config(), { state, port }),
    )
    if (!authorized.ok) return startRefusal('tracker', authorized.refusal)
    return this.#openConsent(attempt, hashSecret(state), port, authorized.value)
  }

  /** Waits for the result of the flow to which the state belongs. Returns the connected account's name. */
  async handleCallback(query: TrackerCallbackQuery): Promise<Result<string>> {
    const redirect = this.#findByState(query.state ?? '')
    if (redirect === undefined) return no('invalid', UNKNOWN_STATE)
    if (redirect.callbacks.size >= PENDING_CALLBACKS_MAX)
      return no('unavailable', 'this connection is being made; wait a moment')
    const refusal = refusalIn(query)
    if (refusal === null && (query.code ?? '') === '') return no('invalid', WITHOUT_CODE)
    const { handle, answer } = redirect.callbacks.add(query.code ?? '')
    if (!this.#send(redirect, { type: 'callback received', handle, refusal }))
      this.#forget(redirect, CONNECT_FAILED)
    return answer
  }

  runEffect(effect: OauthRedirectEffect): void {
    const redirect = this.#redirects.get(effect.flow)
    if (redirect === undefined) return
    switch (effect.type) {
      case 'connect.exchange code':
        void this.#exchange(redirect, redirect.callbacks.get(effect.handle) ?? '')
        return
      case 'connect.save tracker tokens':
        void this.#saveTokens(redirect)
        return
      case 'connect.report redirect connected':
        redirect.callbacks.settleAll(yes(effect.detail))
        return
      case 'connect.report redirect connected again':
        redirect.callbacks.settle(effect.handle, yes(`${effect.detail}; this was done already`))
        return
      case 'connect.report redirect failed':
        this.#reportFailed(redirect, effect.handle, effect.reason)
        return
      case 'connect.forget redirect':
      case 'connect.crashed':
        this.#forget(redirect, CONNECT_FAILED)
        return
    }
  }

  supersede(attempt: number, reason: string): void {
    for (const redirect of this.#redirects.values())
      if (redirect.attempt.number < attempt) this.#send(redirect, { type: 'superseded', reason })
  }

  stop(answer: Result<never>): void {
    for (const redirect of this.#redirects.values()) this.#release(redirect, answer)
    this.#redirects.clear()
  }

  // ---- opening the consent page ----------------------------------------------------------------------------------

  #openConsent(
    attempt: ConnectAttempt,
    stateHash: string,
    port: number,
    { url, verifier }: RedirectAuthorization,
  ): Result<ConnectResponse> {
    if (!isWebPage(url)) return no('invalid', 'a browser cannot open the address of the consent page')
    this.#evictOldest()
    const key = `journey-${attempt.number}`
    const redirect: OauthRedirect = {
      key,
      attempt,
      stateHash,
      port,
      callbacks: new PendingRequests(),
      verifier,
      tokens: undefined,
    }
    const consentUntil = this.#ports.clock.now() + REDIRECT_FLOW_MS_MAX
    const input: OauthRedirectInput = { flow: key, consentUntil, keptUntil: consentUntil + OUTCOME_KEPT_MS }
    const spawned = this.#ports.system.spawn(OAUTH_REDIRECT, key, input)
    if (!spawned.ok) return spawned
    this.#redirects.set(key, redirect)
    return yes({ status: 'redirect', provider: 'tracker', url })
  }

  /** Drops the oldest flow. Flows that exchange or save are spared, unless all of them do. */
  #evictOldest(): void {
    if (this.#redirects.size < REDIRECT_FLOWS_MAX) return
    const all = [...this.#redirects.values()]
    const oldest = all.find((redirect) => !this.#isBusy(redirect)) ?? all[0]
    if (oldest === undefined) return
    this.#send(oldest, { type: 'evicted' })
    this.#forget(oldest, EVICTED)
  }

  #isBusy({ key }: OauthRedirect): boolean {
    const state = this.#ports.system.peek(OAUTH_REDIRECT, key)?.value
    return state === 'exchanging' || state === 'saving'
  }

  #createState(): string {
    const bytes = this.#ports.random.bytes(STATE_BYTES)
    // A shorter state could be guessed, so the bug must not reach the wire.
    if (bytes.length < STATE_BYTES) throw new RangeError(`needs ${STATE_BYTES} random bytes`)
    return Buffer.from(bytes).toString('base64url')
  }

  // ---- requests to the tracker -----------------------------------------------------------------------------------

  async #exchange(redirect: OauthRedirect, code: string): Promise<void> {
    const { accounts, config, log } = this.#ports
    const { port, attempt, verifier } = redirect
    redirect.verifier = undefined
    const problem = this.#writer.problemWith(attempt)
    // The settings changed. Another tracker must not receive this code.
    if (problem !== undefined) {
      this.#send(redirect, { type: 'exchange failed', reason: problem })
      return
    }
    const request = { code, port, ...(verifier === undefined ? {} : { verifier }) }
    const exchanged = await this.#requests.requestInFlow(PROVIDER_NAMES.tracker, () =>
      accounts.exchangeTrackerCode(config(), request),
    )
    if (exchanged.ok) {
      redirect.tokens = exchanged.value
      this.#send(redirect, { type: 'exchanged' })
      return
    }
    const reason = `${safeText(exchanged.refusal.message, [code, verifier])}; ${CONNECT_AGAIN}`
    log.warn({ reason }, 'exchanging the code for tracker tokens failed')
    this.#send(redirect, { type: 'exchange failed', reason })
  }

  async #saveTokens(redirect: OauthRedirect): Promise<void> {
    const { accounts, log } = this.#ports
    const { tokens } = redirect
    redirect.tokens = undefined
    if (tokens === undefined) {
      this.#send(redirect, { type: 'save failed', reason: CONNECT_FAILED })
      return
    }
    const { accessToken, refreshToken = null, expiresAt = null } = tokens
    const saved = await this.#writer.checkAndSave(
      redirect.attempt,
      { tracker: { apiKey: accessToken, refreshToken, tokenExpiresAt: expiresAt } },
      (config) => accounts.checkTracker(config),
      PROVIDER_NAMES.tracker,
    )
    if (saved.ok) {
      log.info({ account: saved.value }, 'the tracker is connected')
      this.#send(redirect, { type: 'saved', detail: saved.value })
      return
    }
    const reason = saved.refusal.message
    log.warn({ reason }, 'connecting the tracker failed')
    this.#send(redirect, { type: 'save failed', reason })
  }

  // ---- flow records ----------------------------------------------------------------------------------------------

  /** Compares with every flow, each in constant time, so the response time reveals nothing about near matches. */
  #findByState(state: string): OauthRedirect | undefined {
    const hash = hashSecret(state)
    return [...this.#redirects.values()].filter((redirect) => isSameHash(redirect.stateHash, hash)).at(-1)
  }

  #reportFailed(redirect: OauthRedirect, handle: number | null, reason: string): void {
    redirect.verifier = undefined
    const answer = no('invalid', reason)
    if (handle === null) redirect.callbacks.settleAll(answer)
    else redirect.callbacks.settle(handle, answer)
  }

  #send(redirect: OauthRedirect, event: OauthRedirectEvent): boolean {
    return this.#ports.system.send(OAUTH_REDIRECT, redirect.key, event)
  }

  #forget(redirect: OauthRedirect, reason: string): void {
    this.#release(redirect, no('invalid', reason))
    this.#redirects.delete(redirect.key)
  }

  #release(redirect: OauthRedirect, answer: Result<never>): void {
    redirect.callbacks.settleAll(answer)
    redirect.verifier = undefined
    redirect.tokens = undefined
  }
}

function refusalIn({
  error,
  error_description: description,
  code,
  state,
}: TrackerCallbackQuery): string | null {
  if (error === undefined) return null
  if (error === 'access_denied') return CONSENT_REFUSED
  const reason = [error, description].filter((part) => part !== undefined && part !== '').join(': ')
  return `the tracker returned an error: ${safeText(reason, [code, state])}; ${CONNECT_AGAIN}`
}

// ---- the address that a person pastes ----------------------------------------------------------------------------

const { path } = routes.trackerCallback
const readCallback = createQueryReader(TrackerCallbackQuery)
const EXPECTED = `must be the whole address that the browser could not open, with ${path}?code=…&state=… in it`

/**
 * Returns the query with which the browser would have called the callback route.
 *
 * @param pasted the whole address, or only its query string; a browser on another machine than the service cannot open
 * the address itself
 */
export function readPastedCallback(pasted: string): Result<TrackerCallbackQuery> {
  const query = parseAddress(pasted.trim())
  if (query === undefined) return no('invalid', `/address: ${EXPECTED}`)
  const read = readCallback(query)
  if (!read.ok) return no('invalid', read.error.replace(/^\/query/, '/address'))
  const { state, code, error } = read.value
  const isWhole = state !== undefined && (code !== undefined || error !== undefined)
  return isWhole ? yes(read.value) : no('invalid', `/address: ${EXPECTED}`)
}

function parseAddress(pasted: string): URLSearchParams | undefined {
  if (pasted.startsWith('?')) return new URLSearchParams(pasted.replace(/#.*$/s, ''))
  // Address bars hide the scheme.
  const address = /^[a-z]+:\/\//i.test(pasted) ? pasted : `http://${pasted}`
  if (!/^https?:/i.test(address) || !URL.canParse(address)) return undefined
  const { pathname, searchParams } = new URL(address)
  return pathname === path ? searchParams : undefined
}

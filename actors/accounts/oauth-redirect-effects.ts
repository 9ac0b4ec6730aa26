/**
 * OauthRedirectEffects sends a redirect flow's requests to the tracker: exchange the code, then check the tokens.
 *
 * The verifier and the tokens stay in the flow's record from one reply to the next request, and no longer. The order
 * of requests is left to the redirect machine.
 */
import type { Log } from '../../core/ports.ts'
import type { Accounts, TokenPair } from '../../core/provider-ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { PendingRequests } from '../runtime/pending-requests.ts'
import type { ConnectAttempt, CredentialWriter } from './credential-writer.ts'
import { PROVIDER_NAMES } from './messages.ts'
import type { OauthRedirectEvent } from './oauth-redirect.machine.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

export const CONNECT_AGAIN = 'connect the tracker again'
export const CONNECT_FAILED = `connecting the tracker failed; ${CONNECT_AGAIN}`

export interface OauthRedirectEffectPorts {
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly accounts: Pick<Accounts, 'exchangeTrackerCode' | 'checkTracker'>
}

export interface OauthRedirect {
  readonly key: string
  readonly attempt: ConnectAttempt
  readonly stateHash: string
  readonly port: number
  /** The callbacks that wait for the result, each with its code; only the first code is used. */
  readonly callbacks: PendingRequests<string, string>
  verifier: string | undefined
  tokens: TokenPair | undefined
}

export class OauthRedirectEffects {
  readonly #ports: OauthRedirectEffectPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter
  readonly #send: (redirect: OauthRedirect, event: OauthRedirectEvent) => void

  constructor(
    ports: OauthRedirectEffectPorts,
    requests: ProviderRequests,
    writer: CredentialWriter,
    send: (redirect: OauthRedirect, event: OauthRedirectEvent) => void,
  ) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
    this.#send = send
  }

  async exchange(redirect: OauthRedirect, code: string): Promise<void> {
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

  async save(redirect: OauthRedirect): Promise<void> {
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
}

/**
 * Credentials handles the credentials that a person sets or removes by hand.
 *
 * All sent credentials are checked with their providers in parallel. The valid ones are saved in one change; each
 * refused one returns its reason. Fields that were not sent stay as they are.
 */
import type { Log } from '../../core/ports.ts'
import type { Accounts, CredentialChange } from '../../core/provider-ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  CREDENTIAL_PROVIDERS,
  type CredentialResult,
  type CredentialsRequest,
  type CredentialsResponse,
} from '../../protocol/connect.ts'
import { changeForField, credentialProblem } from './credential-rules.ts'
import { type ConnectAttempt, type CredentialWriter, withChange } from './credential-writer.ts'
import { PROVIDER_NAMES } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

type CredentialField = keyof CredentialsRequest
type CredentialResults = CredentialsResponse['results']

/** The prefix of the tracker's OAuth tokens, which expire after a day. */
const TRACKER_OAUTH_TOKEN = /^lin_oauth_/
const NOT_RENEWABLE =
  "this OAuth token expires within a day and can't be renewed; connect the tracker instead, or give a personal API key"

export interface CredentialsPorts {
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
}

/** A field whose value was checked and may be saved. */
interface CheckedCredential {
  readonly field: CredentialField
  readonly attempt: ConnectAttempt
  readonly change: CredentialChange
  readonly detail: string
}

export class Credentials {
  readonly #ports: CredentialsPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter

  constructor(ports: CredentialsPorts, requests: ProviderRequests, writer: CredentialWriter) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
  }

  async change(request: CredentialsRequest): Promise<Result<CredentialsResponse>> {
    const results: CredentialResults = {}
    const sent = Object.keys(CREDENTIAL_PROVIDERS).filter((name): name is CredentialField =>
      Object.hasOwn(request, name),
    )
    const checked = await Promise.all(
      sent.map((field) => this.#checkField(field, request[field] ?? '', results)),
    )
    await this.#save(
      checked.filter((credential) => credential !== undefined),
      results,
    )
    return yes({ results, config: this.#ports.redacted() })
  }

  /** Returns undefined for a refused value and records the reason in `results`. */
  async #checkField(
    field: CredentialField,
    value: string,
    results: CredentialResults,
  ): Promise<CheckedCredential | undefined> {
    const provider = CREDENTIAL_PROVIDERS[field]
    const change = changeForField(field, value)
    if (value === '')
      return { field, change, attempt: this.#writer.beginDisconnect(provider), detail: 'disconnected' }
    const attempt = this.#writer.beginConnect(provider)
    const problem = credentialProblem(value)
    if (problem !== undefined) {
      this.#refuse(field, `the value ${problem}`, results)
      return undefined
    }
    const config = withChange(this.#ports.config(), change)
    const checked = await this.#requests.request(PROVIDER_NAMES[provider], () =>
      this.#askProvider(field, config),
    )
    if (checked.ok)
      return { field, attempt, change, detail: detailOf(field, value, safeText(checked.value, [value])) }
    this.#refuse(field, safeText(checked.refusal.message, [value]), results)
    return undefined
  }

  #askProvider(field: CredentialField, config: ServiceConfig): Promise<Result<string>> {
    const { accounts } = this.#ports
    if (field === 'trackerApiKey') return accounts.checkTracker(config)
    if (field === 'codehostToken') return accounts.checkCodehost(config)
    return accounts.checkAgent(config, CREDENTIAL_PROVIDERS[field])
  }

  /** Saves all credentials in one change. Superseded credentials are left out, and the rest are tried again. */
  async #save(credentials: readonly CheckedCredential[], results: CredentialResults): Promise<void> {
    const current = credentials.filter((credential) => this.#isCurrent(credential, results))
    if (current.length === 0) return
    const change = current.reduce<CredentialChange>(
      (all, credential) => mergeChanges(all, credential.change),
      {},
    )
    const saved = await this.#writer.save(
      current.map(({ attempt: stance }) => stance),
      change,
    )
    if (saved.ok) {
      for (const { field, detail } of current) results[CREDENTIAL_PROVIDERS[field]] = { ok: true, detail }
      this.#ports.log.info(
        { providers: current.map(({ field }) => CREDENTIAL_PROVIDERS[field]) },
        'credentials changed',
      )
      return
    }
    const { message } = saved.refusal
    const stillCurrent = current.filter(({ attempt }) => this.#writer.problemWith(attempt) === undefined)
    if (stillCurrent.length < current.length) return this.#save(current, results)
    for (const { field } of current) this.#refuse(field, message, results)
  }

  #isCurrent({ field, attempt }: CheckedCredential, results: CredentialResults): boolean {
    const problem = this.#writer.problemWith(attempt)
    if (problem === undefined) return true
    this.#refuse(field, problem, results)
    return false
  }

  #refuse(field: CredentialField, detail: string, results: CredentialResults): void {
    const result: CredentialResult = { ok: false, detail }
    results[CREDENTIAL_PROVIDERS[field]] = result
    this.#ports.log.warn(
      { provider: CREDENTIAL_PROVIDERS[field], reason: detail },
      'a credential was refused',
    )
  }
}

function detailOf(field: CredentialField, value: string, detail: string): string {
  return field === 'trackerApiKey' && TRACKER_OAUTH_TOKEN.test(value) ? `${detail}; ${NOT_RENEWABLE}` : detail
}

/** Merges two changes. Agents share one section, whose nulls must stay because null removes a credential. */
function mergeChanges(first: CredentialChange, second: CredentialChange): CredentialChange {
  if (first.agent === undefined || second.agent === undefined) return { ...first, ...second }
  return { ...first, ...second, agent: { ...first.agent, ...second.agent } }
}

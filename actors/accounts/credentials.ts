/**
 * Credentials handles the credentials that a person sets or removes by hand, and the logins found on this machine.
 *
 * All sent credentials are checked with their providers in parallel. The valid ones are saved in one change; each
 * refused one returns its reason. Fields that were not sent stay as they are.
 */
import type { CredentialChange, FoundLogin } from '../../core/ports/accounts.ts'
import { type Result, yes } from '../../core/result.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  type ConnectResponse,
  CREDENTIAL_PROVIDERS,
  type CredentialResult,
  type CredentialsRequest,
  type CredentialsResponse,
} from '../../protocol/connect.ts'
import {
  type AccountPorts,
  type ConnectAttempt,
  type CredentialWriter,
  changeForAgent,
  changeForField,
  credentialProblem,
  secretsIn,
  withChange,
} from './credential-writer.ts'
import { manualConnect, PROVIDER_NAMES, safeText } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'

type CredentialField = keyof CredentialsRequest
type CredentialResults = CredentialsResponse['results']

/** The prefix of the tracker's OAuth tokens, which expire after a day. */
const TRACKER_OAUTH_TOKEN = /^lin_oauth_/
const NOT_RENEWABLE =
  "this OAuth token expires within a day and can't be renewed; connect the tracker instead, or give a personal API key"

/** A field whose value was checked and may be saved. */
interface CheckedCredential {
  readonly field: CredentialField
  readonly attempt: ConnectAttempt
  readonly change: CredentialChange
  readonly detail: string
}

export class Credentials {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter

  constructor(ports: AccountPorts, requests: ProviderRequests, writer: CredentialWriter) {
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
    const { accounts, bucket } = this.#ports
    if (field === 'trackerApiKey') return accounts.checkTracker(config)
    if (field === 'codehostToken') return accounts.checkCodehost(config)
    if (field === 'storageToken') return bucket.check(config.storage.token ?? '')
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

  // ---- logins that an agent's own program keeps ------------------------------------------------------------------

  /**
   * Connects an agent with the login that its own program keeps on this machine.
   *
   * A found login is checked like a key given by hand and replaces all credentials of that agent. When no usable login
   * exists, the reply asks the person for a key.
   */
  async connectAgent(provider: AgentProvider): Promise<Result<ConnectResponse>> {
    const attempt = this.#writer.beginConnect(provider)
    const found = await this.#requests.request(PROVIDER_NAMES[provider], () =>
      this.#ports.accounts.findAgentLogin(provider),
    )
    // A key given by hand remains possible after every refusal, except while the service stops.
    if (!found.ok)
      return this.#requests.isStopped ? found : manualConnect(provider, safeText(found.refusal.message))
    return this.#checkLogin(attempt, provider, found.value)
  }

  async #checkLogin(
    attempt: ConnectAttempt,
    provider: AgentProvider,
    { credential, detail }: FoundLogin,
  ): Promise<Result<ConnectResponse>> {
    const { log, redacted } = this.#ports
    const change = changeForAgent(provider, credential)
    const secrets = secretsIn(change)
    if (secrets.length === 0)
      return manualConnect(provider, 'the login found on this machine holds no credential')
    const account = safeText(detail, secrets)
    const check = (config: ServiceConfig) => this.#ports.accounts.checkAgent(config, provider)
    const saved = await this.#writer.checkAndSave(attempt, change, check, PROVIDER_NAMES[provider])
    if (saved.ok) {
      log.info({ provider, account }, 'an agent is connected by a login found on this machine')
      return yes({ status: 'connected', provider, detail: account, config: redacted() })
    }
    const { kind, message } = saved.refusal
    if (kind === 'conflict' || this.#requests.isStopped) return saved
    return manualConnect(provider, `${account} was found on this machine, but can't be used: ${message}`)
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

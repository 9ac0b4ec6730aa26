/** The accounts module connects trackers, code hosts, agents and the bucket. */
import { pathsIn } from '../../core/audit-paths.ts'
import type { BucketState } from '../../core/ports/bucket.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type {
  ConnectPollResponse,
  ConnectProvider,
  ConnectResponse,
  CredentialProvider,
  CredentialsRequest,
  CredentialsResponse,
  StorageConnectResponse,
  StorageStatus,
  TrackerCallbackQuery,
} from '../../protocol/connect.ts'
import { CODE_HOST_FACTS, isFolder } from '../../protocol/drivers.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { defineHostModule } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { type CallbackPage, createCallbackPage } from './callback-page.ts'
import { type AccountPorts, CredentialWriter } from './credential-writer.ts'
import { Credentials } from './credentials.ts'
import { type DeviceFlowEffect, deviceFlowKind } from './device-flow.machine.ts'
import { DeviceFlows } from './device-flows.ts'
import { safeText } from './messages.ts'
import { type OauthRedirectEffect, oauthRedirectKind } from './oauth-redirect.machine.ts'
import { OauthRedirects, readPastedCallback } from './oauth-redirects.ts'
import { ProviderRequests } from './provider-requests.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly accounts: AccountManager
  }
}

export const accountsModule = defineHostModule({
  name: 'accounts',
  kinds: [deviceFlowKind, oauthRedirectKind],
  create(context, { settings, tracker }) {
    const accounts = new AccountManager({
      ...context,
      redacted: () => context.currentConfig.redacted,
      port: context.managementPort,
      save: async (change, still = () => true) => {
        const saved = await settings.saveCredentials(change, still)
        // A tracker may be asked with the code host's token, too.
        if (saved.ok && (change.tracker ?? change.codehost) !== undefined)
          tracker.connection.onCredentialConfirmed()
        // Consents of people come by several ways, and through a browser.
        if (saved.ok)
          await context.store.trail.record({
            source: 'host',
            action: 'connectAccount',
            keys: pathsIn(change),
          })
        return saved
      },
    })
    return {
      view: accounts,
      effects: effectHandlers<AccountEffect>({ connect: (effect) => accounts.runEffect(effect) }),
      stop: () => accounts.stop(),
      sizes: () => ({ connecting: accounts.size }),
    }
  },
})

export type AccountEffect = DeviceFlowEffect | OauthRedirectEffect

const SERVICE_STOPPING = no('unavailable', 'the service is stopping')

/**
 * AccountManager connects accounts: the tracker by OAuth redirect, the code host by device flow, agents by logins found
 * on this machine, and any of them by a credential given by hand. The manager also reports the bucket's status.
 *
 * Secrets go from a provider to the configuration file only; replies, logs and actor events never hold one. Every
 * credential is checked with its provider before it is saved. Flows live in memory: after a restart the person starts
 * again. The providers' protocols are left to `providers/accounts`.
 */
export class AccountManager {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  readonly #deviceFlows: DeviceFlows
  readonly #oauthRedirects: OauthRedirects
  readonly #credentials: Credentials
  readonly #bucketStatus: BucketStatus

  constructor(ports: AccountPorts) {
    this.#ports = ports
    this.#requests = new ProviderRequests(ports)
    const writer = new CredentialWriter(ports, this.#requests, (provider, attempt, reason) =>
      this.#supersede(provider, attempt, reason),
    )
    this.#deviceFlows = new DeviceFlows(ports, this.#requests, writer)
    this.#oauthRedirects = new OauthRedirects(ports, this.#requests, writer)
    this.#credentials = new Credentials(ports, this.#requests, writer)
    this.#bucketStatus = new BucketStatus(ports, this.#requests)
  }

  /** The number of flows and provider requests held in memory, for leak checks. */
  get size(): number {
    return this.#deviceFlows.size + this.#oauthRedirects.size + this.#requests.size
  }

  async connect(provider: ConnectProvider): Promise<Result<ConnectResponse>> {
    if (this.#requests.isStopped) return SERVICE_STOPPING
    if (provider === 'tracker') return this.#oauthRedirects.start()
    if (provider !== 'codehost') return this.#credentials.connectAgent(provider)
    return isFolder(CODE_HOST_FACTS[this.#ports.config().codehost.driver])
      ? this.#localCodehost()
      : this.#deviceFlows.start()
  }

  async pollCodehost(): Promise<ConnectPollResponse> {
    return this.#deviceFlows.poll()
  }

  /** Handles the browser's return from the consent page. The returned page states the result. */
  async handleTrackerCallback(query: TrackerCallbackQuery): Promise<CallbackPage> {
    return createCallbackPage(await this.#finishRedirect(query))
  }

  /** Handles a callback address that a person pasted because the browser could not open it. */
  async handlePastedCallback(address: string): Promise<Result<ConnectPollResponse>> {
    const query = readPastedCallback(address)
    if (!query.ok) return query
    const result = await this.#finishRedirect(query.value)
    return yes(
      result.ok
        ? { status: 'connected', detail: result.value, config: this.#ports.redacted() }
        : { status: 'error', detail: result.refusal.message },
    )
  }

  async storageStatus(): Promise<StorageStatus> {
    return this.#bucketStatus.status()
  }

  async connectStorage(): Promise<StorageConnectResponse> {
    return this.#bucketStatus.connect()
  }

  async changeCredentials(request: CredentialsRequest): Promise<Result<CredentialsResponse>> {
    return this.#requests.isStopped ? SERVICE_STOPPING : this.#credentials.change(request)
  }

  runEffect(effect: AccountEffect): void {
    if (this.#requests.isStopped) return
    // Each class ignores effects whose flow key it does not know.
    this.#deviceFlows.runEffect(effect as DeviceFlowEffect)
    this.#oauthRedirects.runEffect(effect as OauthRedirectEffect)
  }

  /** Answers all pending requests with a refusal and drops the flows with their secrets. */
  stop(): void {
    this.#requests.stop()
    this.#deviceFlows.stop(SERVICE_STOPPING)
    this.#oauthRedirects.stop(SERVICE_STOPPING)
  }

  async #finishRedirect(query: TrackerCallbackQuery): Promise<Result<string>> {
    return this.#requests.isStopped ? SERVICE_STOPPING : this.#oauthRedirects.handleCallback(query)
  }

  /** The local code host needs no account, so `connected` is the only reply that asks the person for nothing. */
  #localCodehost(): Result<ConnectResponse> {
    const detail = 'the local code host is a folder on this machine; it needs no account'
    return yes({ status: 'connected', provider: 'codehost', detail, config: this.#ports.redacted() })
  }

  #supersede(provider: CredentialProvider, attempt: number, reason: string): void {
    if (provider === 'codehost') this.#deviceFlows.supersede(attempt, reason)
    if (provider === 'tracker') this.#oauthRedirects.supersede(attempt, reason)
  }
}

// ---- the bucket --------------------------------------------------------------------------------------------------

const COMMAND_NAME = "the bucket's command line"
const NOT_INSTALLED = `${COMMAND_NAME} (wrangler) is not installed on this machine: npm install --global wrangler`
/** The assumed state when the command gives no answer: installed, but without a login. */
const UNKNOWN: BucketState = { installed: true, loggedIn: false }

/**
 * BucketStatus reports whether the bucket can be used, and starts the login of its command line.
 *
 * The command line keeps the login, so every request runs the command again. Requests that arrive while the command
 * runs share its answer.
 */
class BucketStatus {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  #pending: Promise<BucketState> | undefined

  constructor(ports: AccountPorts, requests: ProviderRequests) {
    this.#ports = ports
    this.#requests = requests
  }

  async status(): Promise<StorageStatus> {
    return statusOf(await this.#readState(), this.#ports.config().storage)
  }

  async connect(): Promise<StorageConnectResponse> {
    const state = await this.#readState()
    if (!state.installed) return { status: 'unavailable', reason: NOT_INSTALLED }
    if (state.loggedIn) return { status: 'connected', r2: statusOf(state, this.#ports.config().storage) }
    const started = await this.#requests.request(COMMAND_NAME, () => this.#ports.bucket.login())
    if (started.ok) return { status: 'login-started', detail: safeText(started.value) }
    const { kind, message } = started.refusal
    // The command allows one login at a time. A login that somebody else started serves this person too.
    return kind === 'conflict'
      ? { status: 'login-started', detail: safeText(message) }
      : { status: 'unavailable', reason: safeText(message) }
  }

  #readState(): Promise<BucketState> {
    this.#pending ??= this.#requestState().finally(() => {
      this.#pending = undefined
    })
    return this.#pending
  }

  async #requestState(): Promise<BucketState> {
    const read = await this.#requests.requestInFlow(COMMAND_NAME, async () =>
      yes(await this.#ports.bucket.status(this.#ports.config().storage.token)),
    )
    return read.ok ? read.value : UNKNOWN
  }
}

function statusOf(
  { installed, loggedIn, account }: BucketState,
  { bucket, publicBaseUrl }: ServiceConfig['storage'],
): StorageStatus {
  return {
    installed,
    loggedIn,
    ...(account === undefined ? {} : { account: safeText(account).slice(0, NAME_CHARS_MAX) }),
    bucket,
    publicBaseUrl,
    ready: installed && loggedIn && bucket !== '' && publicBaseUrl !== '',
  }
}

/**
 * AccountManager connects accounts: the tracker by OAuth redirect, the code host by device flow, agents by logins found
 * on this machine, and any of them by a credential given by hand. The manager also reports the bucket's status.
 *
 * Secrets go from a provider to the configuration file only; replies, logs and actor events never hold one. Every
 * credential is checked with its provider before it is saved. Flows live in memory: after a restart the person starts
 * again. The providers' protocols are left to `providers/accounts`.
 */
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Accounts, Bucket } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type {
  ConnectPollResponse,
  ConnectProvider,
  ConnectResponse,
  CredentialsRequest,
  CredentialsResponse,
  StorageConnectResponse,
  StorageStatus,
  TrackerCallbackQuery,
} from '../../protocol/connect.ts'
import { CODE_HOST_FACTS, isFolder } from '../../protocol/drivers.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { AgentLogins } from './agent-logins.ts'
import { BucketStatus } from './bucket-status.ts'
import { type CallbackPage, createCallbackPage } from './callback-page.ts'
import { CredentialWriter, type SaveCredentialChange } from './credential-writer.ts'
import { Credentials } from './credentials.ts'
import type { DeviceFlowEffect } from './device-flow.machine.ts'
import { DeviceFlows } from './device-flows.ts'
import type { OauthRedirectEffect } from './oauth-redirect.machine.ts'
import { OauthRedirects } from './oauth-redirects.ts'
import { readPastedCallback } from './pasted-callback.ts'
import { ProviderRequests } from './provider-requests.ts'

export type AccountEffect = DeviceFlowEffect | OauthRedirectEffect

export interface AccountManagerPorts {
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'bytes'>
  readonly log: Log
  readonly system: Pick<ActorSystem, 'spawn' | 'send' | 'peek'>
  readonly config: () => ServiceConfig
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** The management port on which the host listens; undefined until it is bound. */
  readonly port: () => number | undefined
  /** Resolves when the change is durable and published. Refuses with `conflict` when `still` returns false. */
  readonly save: SaveCredentialChange
}

const SERVICE_STOPPING = no('unavailable', 'the service is stopping')

export class AccountManager {
  readonly #ports: AccountManagerPorts
  readonly #requests: ProviderRequests
  readonly #deviceFlows: DeviceFlows
  readonly #oauthRedirects: OauthRedirects
  readonly #agentLogins: AgentLogins
  readonly #credentials: Credentials
  readonly #bucketStatus: BucketStatus

  constructor(ports: AccountManagerPorts) {
    this.#ports = ports
    this.#requests = new ProviderRequests(ports)
    const writer = new CredentialWriter(
      { ...ports, supersede: (provider, attempt, reason) => this.#supersede(provider, attempt, reason) },
      this.#requests,
    )
    this.#deviceFlows = new DeviceFlows(ports, this.#requests, writer)
    this.#oauthRedirects = new OauthRedirects(ports, this.#requests, writer)
    this.#agentLogins = new AgentLogins(ports, this.#requests, writer)
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
    if (provider !== 'codehost') return this.#agentLogins.connect(provider)
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

  #supersede(provider: ConnectProvider, attempt: number, reason: string): void {
    if (provider === 'codehost') this.#deviceFlows.supersede(attempt, reason)
    if (provider === 'tracker') this.#oauthRedirects.supersede(attempt, reason)
  }
}

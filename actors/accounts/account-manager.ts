/**
 * The room in which accounts are connected: the tracker by a journey of the browser, the code host by a device code,
 * agents by logins found here, anything by hand; and what the bucket says of itself.
 *
 * Secrets pass through here, from a provider to the configuration file, and nowhere else: what is answered, logged or
 * told to a life never holds one. Nothing is saved before it was checked with its provider. With the service every
 * flow ends, and none is there after a restart: then the person begins anew.
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
import type { ActorSystem } from '../runtime/actor-system.ts'
import { AgentLogins } from './agent-logins.ts'
import { BucketStatus } from './bucket-status.ts'
import { type CallbackPage, createCallbackPage } from './callback-page.ts'
import { CredentialWriter, type SaveCredentials } from './credential-writer.ts'
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
  /** The management port as it is bound; undefined while it is not known. */
  readonly port: () => number | undefined
  /** Durable and announced when it resolves. Refused as `conflict` when `still` says no at that moment. */
  readonly save: SaveCredentials
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

  /** How much of what comes and goes is held right now. */
  get size(): number {
    return this.#deviceFlows.size + this.#oauthRedirects.size + this.#requests.size
  }

  async connect(provider: ConnectProvider): Promise<Result<ConnectResponse>> {
    if (this.#requests.isStopped) return SERVICE_STOPPING
    if (provider === 'tracker') return this.#oauthRedirects.start()
    if (provider !== 'codehost') return this.#agentLogins.connect(provider)
    return this.#ports.config().codehost.driver === 'local'
      ? this.#localCodehost()
      : this.#deviceFlows.start()
  }

  async pollCodehost(): Promise<ConnectPollResponse> {
    return this.#deviceFlows.poll()
  }

  /** As the browser brings it; the page says what became of it. */
  async handleTrackerCallback(query: TrackerCallbackQuery): Promise<CallbackPage> {
    return createCallbackPage(await this.#finishRedirect(query))
  }

  /** The same, brought by a person. */
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
    // Each knows its own flows by their keys, and no other.
    this.#deviceFlows.runEffect(effect as DeviceFlowEffect)
    this.#oauthRedirects.runEffect(effect as OauthRedirectEffect)
  }

  /** Everybody who waits is answered; flows and their secrets are let go. */
  stop(): void {
    this.#requests.stop()
    this.#deviceFlows.stop(SERVICE_STOPPING)
    this.#oauthRedirects.stop(SERVICE_STOPPING)
  }

  async #finishRedirect(query: TrackerCallbackQuery): Promise<Result<string>> {
    return this.#requests.isStopped ? SERVICE_STOPPING : this.#oauthRedirects.handleCallback(query)
  }

  /** The other shapes ask a person for something, and nothing is needed. */
  #localCodehost(): Result<ConnectResponse> {
    const detail = 'the local code host is a folder on this machine; it needs no account'
    return yes({ status: 'connected', provider: 'codehost', detail, config: this.#ports.redacted() })
  }

  #supersede(provider: ConnectProvider, turn: number, reason: string): void {
    if (provider === 'codehost') this.#deviceFlows.supersede(turn, reason)
    if (provider === 'tracker') this.#oauthRedirects.supersede(turn, reason)
  }
}

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
import { Storage } from './bucket-status.ts'
import { type CallbackPage, callbackPage } from './callback-page.ts'
import { Keeping, type Save } from './credential-writer.ts'
import { Credentials } from './credentials.ts'
import type { DeviceFlowEffect } from './device-flow.machine.ts'
import { DeviceFlows } from './device-flows.ts'
import type { JourneyEffect } from './oauth-redirect.machine.ts'
import { Journeys } from './oauth-redirects.ts'
import { readPasted } from './pasted-callback.ts'
import { Questions } from './provider-requests.ts'

export type ConnectEffect = DeviceFlowEffect | JourneyEffect

export interface ConnectRoomPorts {
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
  readonly save: Save
}

const STOPPING = no('unavailable', 'the service is stopping')

export class ConnectRoom {
  readonly #ports: ConnectRoomPorts
  readonly #questions: Questions
  readonly #devices: DeviceFlows
  readonly #journeys: Journeys
  readonly #agents: AgentLogins
  readonly #credentials: Credentials
  readonly #storage: Storage

  constructor(ports: ConnectRoomPorts) {
    this.#ports = ports
    this.#questions = new Questions(ports)
    const keeping = new Keeping(
      { ...ports, supersede: (provider, turn, reason) => this.#supersede(provider, turn, reason) },
      this.#questions,
    )
    this.#devices = new DeviceFlows(ports, this.#questions, keeping)
    this.#journeys = new Journeys(ports, this.#questions, keeping)
    this.#agents = new AgentLogins(ports, this.#questions, keeping)
    this.#credentials = new Credentials(ports, this.#questions, keeping)
    this.#storage = new Storage(ports, this.#questions)
  }

  /** How much of what comes and goes is held right now. */
  get size(): number {
    return this.#devices.size + this.#journeys.size + this.#questions.size
  }

  async connect(provider: ConnectProvider): Promise<Result<ConnectResponse>> {
    if (this.#questions.isOver) return STOPPING
    if (provider === 'tracker') return this.#journeys.begin()
    if (provider !== 'codehost') return this.#agents.connect(provider)
    return this.#ports.config().codehost.driver === 'local' ? this.#local() : this.#devices.begin()
  }

  async pollCodehost(): Promise<ConnectPollResponse> {
    return this.#devices.poll()
  }

  /** As the browser brings it; the page says what became of it. */
  async callback(query: TrackerCallbackQuery): Promise<CallbackPage> {
    return callbackPage(await this.#arrived(query))
  }

  /** The same, brought by a person. */
  async paste(address: string): Promise<Result<ConnectPollResponse>> {
    const query = readPasted(address)
    if (!query.ok) return query
    const arrived = await this.#arrived(query.value)
    return yes(
      arrived.ok
        ? { status: 'connected', detail: arrived.value, config: this.#ports.redacted() }
        : { status: 'error', detail: arrived.refusal.message },
    )
  }

  async storage(): Promise<StorageStatus> {
    return this.#storage.status()
  }

  async connectStorage(): Promise<StorageConnectResponse> {
    return this.#storage.connect()
  }

  async changeCredentials(request: CredentialsRequest): Promise<Result<CredentialsResponse>> {
    return this.#questions.isOver ? STOPPING : this.#credentials.change(request)
  }

  do(effect: ConnectEffect): void {
    if (this.#questions.isOver) return
    // Each knows its own flows by their keys, and no other.
    this.#devices.do(effect as DeviceFlowEffect)
    this.#journeys.do(effect as JourneyEffect)
  }

  /** Everybody who waits is answered; flows and their secrets are let go. */
  stop(): void {
    this.#questions.stop()
    this.#devices.stop(STOPPING)
    this.#journeys.stop(STOPPING)
  }

  async #arrived(query: TrackerCallbackQuery): Promise<Result<string>> {
    return this.#questions.isOver ? STOPPING : this.#journeys.arrive(query)
  }

  /** The other shapes ask a person for something, and nothing is needed. */
  #local(): Result<ConnectResponse> {
    const detail = 'the local code host is a folder on this machine; it needs no account'
    return yes({ status: 'connected', provider: 'codehost', detail, config: this.#ports.redacted() })
  }

  #supersede(provider: ConnectProvider, turn: number, reason: string): void {
    if (provider === 'codehost') this.#devices.supersede(turn, reason)
    if (provider === 'tracker') this.#journeys.supersede(turn, reason)
  }
}

/**
 * BucketStatus reports whether the bucket can be used, and starts the login of its command line.
 *
 * The command line keeps the login, so every request runs the command again. Requests that arrive while the command
 * runs share its answer.
 */
import type { Bucket, BucketState } from '../../core/provider-ports.ts'
import { yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { StorageConnectResponse, StorageStatus } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

const COMMAND_NAME = "the bucket's command line"
const NOT_INSTALLED = `${COMMAND_NAME} (wrangler) is not installed on this machine: npm install --global wrangler`
/** The assumed state when the command gives no answer: installed, but without a login. */
const UNKNOWN: BucketState = { installed: true, loggedIn: false }

export interface BucketStatusPorts {
  readonly config: () => ServiceConfig
  readonly bucket: Bucket
}

export class BucketStatus {
  readonly #ports: BucketStatusPorts
  readonly #requests: ProviderRequests
  #pending: Promise<BucketState> | undefined

  constructor(ports: BucketStatusPorts, requests: ProviderRequests) {
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
      yes(await this.#ports.bucket.status()),
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

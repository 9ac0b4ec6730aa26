/**
 * The bucket's connector. Nothing of it is stored here: its own command knows whether it is logged in, and is asked
 * anew each time. Those who ask while it is being asked share its answer.
 */
import type { Bucket, BucketLook } from '../../core/provider-ports.ts'
import { yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { StorageConnectResponse, StorageStatus } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

const COMMAND = "the bucket's command line"
const NOT_INSTALLED = `${COMMAND} (wrangler) is not installed on this machine: npm install --global wrangler`
/** A command that can't be asked is there, as far as anybody knows, and nobody is logged in. */
const UNKNOWN: BucketLook = { installed: true, loggedIn: false }

export interface StoragePorts {
  readonly config: () => ServiceConfig
  readonly bucket: Bucket
}

export class Storage {
  readonly #ports: StoragePorts
  readonly #questions: Questions
  #looking: Promise<BucketLook> | undefined

  constructor(ports: StoragePorts, questions: Questions) {
    this.#ports = ports
    this.#questions = questions
  }

  async status(): Promise<StorageStatus> {
    return statusOf(await this.#look(), this.#ports.config().storage)
  }

  async connect(): Promise<StorageConnectResponse> {
    const look = await this.#look()
    if (!look.installed) return { status: 'unavailable', reason: NOT_INSTALLED }
    if (look.loggedIn) return { status: 'connected', r2: statusOf(look, this.#ports.config().storage) }
    const begun = await this.#questions.ask(COMMAND, () => this.#ports.bucket.login())
    if (begun.ok) return { status: 'login-started', detail: sentence(begun.value) }
    const { kind, message } = begun.refusal
    // One login at a time: somebody began it already, and that is as good.
    return kind === 'conflict'
      ? { status: 'login-started', detail: sentence(message) }
      : { status: 'unavailable', reason: sentence(message) }
  }

  #look(): Promise<BucketLook> {
    this.#looking ??= this.#asked().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #asked(): Promise<BucketLook> {
    const looked = await this.#questions.goOn(COMMAND, async () => yes(await this.#ports.bucket.look()))
    return looked.ok ? looked.value : UNKNOWN
  }
}

function statusOf(
  { installed, loggedIn, account }: BucketLook,
  { bucket, publicBaseUrl }: ServiceConfig['storage'],
): StorageStatus {
  return {
    installed,
    loggedIn,
    ...(account === undefined ? {} : { account: sentence(account).slice(0, NAME_CHARS_MAX) }),
    bucket,
    publicBaseUrl,
    ready: installed && loggedIn && bucket !== '' && publicBaseUrl !== '',
  }
}

/**
 * ProviderRequests calls providers with a limit on duration and on concurrency, and ends all calls when it stops.
 *
 * Every caller receives an answer, even when a provider hangs or throws. A throw is a bug: the log names the stack
 * frames but not the message, which may hold a secret.
 */
import { isNativeError } from 'node:util/types'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Refused, type Result } from '../../core/result.ts'
import { withTimeout } from '../../core/with-timeout.ts'

/** The number of concurrent requests, over all callers. */
export const PROVIDER_REQUESTS_MAX = 32
/** The longest duration of one request. Providers abort a single HTTP request much sooner. */
export const PROVIDER_REQUEST_MS_MAX = 60_000

const STOPPING_REFUSAL = no('unavailable', 'the service is stopping')
const TOO_MANY_REQUESTS = no(
  'unavailable',
  `${PROVIDER_REQUESTS_MAX} requests to providers are already running; try again in a moment`,
)

type ProviderCall<T> = () => Promise<Result<T>> | Result<T>

export class ProviderRequests {
  readonly #ports: { readonly clock: Pick<Clock, 'after'>; readonly log: Log }
  readonly #open = new Set<(answer: Refused) => void>()
  #isStopped = false

  constructor(ports: { readonly clock: Pick<Clock, 'after'>; readonly log: Log }) {
    this.#ports = ports
  }

  get size(): number {
    return this.#open.size
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /**
   * Sends the first request of a flow. Refuses when too many requests are running.
   *
   * @param provider the provider's name in messages: `the tracker`
   */
  async request<T>(provider: string, call: ProviderCall<T>): Promise<Result<T>> {
    return this.#open.size >= PROVIDER_REQUESTS_MAX ? TOO_MANY_REQUESTS : this.requestInFlow(provider, call)
  }

  /** Sends a later request of a flow, without the concurrency limit: a started flow must not fail for others' load. */
  async requestInFlow<T>(provider: string, call: ProviderCall<T>): Promise<Result<T>> {
    if (this.#isStopped) return STOPPING_REFUSAL
    let stop: (answer: Refused) => void = () => {}
    const reply = new Promise<Result<T>>((settle) => {
      stop = settle
      void this.#callSafely(provider, call).then(settle)
    })
    this.#open.add(stop)
    const answer = await withTimeout(this.#ports.clock, PROVIDER_REQUEST_MS_MAX, reply, provider)
    this.#open.delete(stop)
    return answer
  }

  stop(): void {
    this.#isStopped = true
    for (const stop of this.#open) stop(STOPPING_REFUSAL)
  }

  async #callSafely<T>(provider: string, call: ProviderCall<T>): Promise<Result<T>> {
    try {
      return await call()
    } catch (error) {
      this.#ports.log.error(
        { provider, stack: stackFramesOf(error) },
        'a request to a provider threw an error',
      )
      return no(
        'failed',
        `${provider} could not be asked because of an internal error; see the log for its stack`,
      )
    }
  }
}

/** Returns the error's name and stack frames, without its message. */
function stackFramesOf(error: unknown): string {
  if (!isNativeError(error)) return 'unknown'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.startsWith('    at '))
  return [error.name, ...frames].join('\n')
}

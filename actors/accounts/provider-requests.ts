/**
 * Asking providers: never for longer than a while, never many at once, and never beyond the end of the service.
 *
 * Nobody who waits is left waiting, whatever a provider does. One that throws has a bug: the log says where, but not
 * what it said, for that may hold what it was given.
 */
import { isNativeError } from 'node:util/types'
import type { Clock, Log } from '../../core/ports.ts'
import { no, type Refused, type Result } from '../../core/result.ts'
import { withTimeout } from '../../core/with-timeout.ts'

/** Questions under way at once, from everybody. */
export const PROVIDER_REQUESTS_MAX = 32
/** What one may take; providers give up on a single request much sooner. */
export const PROVIDER_REQUEST_MS_MAX = 60_000

const STOPPING_REFUSAL = no('unavailable', 'the service is stopping')
const TOO_MANY_REQUESTS = no(
  'unavailable',
  `${PROVIDER_REQUESTS_MAX} questions to providers are under way already; try again in a moment`,
)

type ProviderCall<T> = () => Promise<Result<T>> | Result<T>

export interface ProviderRequestsPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
}

export class ProviderRequests {
  readonly #ports: ProviderRequestsPorts
  readonly #open = new Set<(answer: Refused) => void>()
  #isStopped = false

  constructor(ports: ProviderRequestsPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#open.size
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /**
   * The first question of something: refused when there are too many.
   *
   * @param provider as a person knows it: `the tracker`
   */
  async request<T>(provider: string, call: ProviderCall<T>): Promise<Result<T>> {
    return this.#open.size >= PROVIDER_REQUESTS_MAX ? TOO_MANY_REQUESTS : this.requestInFlow(provider, call)
  }

  /** A later one, of what is bounded by itself: a code that was given out must not be lost to a crowd. */
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
      this.#ports.log.error({ who: provider, place: stackFramesOf(error) }, 'a question to a provider threw')
      return no('failed', `${provider} could not be asked; the log says where that failed`)
    }
  }
}

/** Of a stack, the frames alone. */
function stackFramesOf(error: unknown): string {
  if (!isNativeError(error)) return 'unknown'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.startsWith('    at '))
  return [error.name, ...frames].join('\n')
}

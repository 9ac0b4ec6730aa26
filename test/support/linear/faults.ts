/**
 * What can go wrong on the way, switched on by a test for so many requests, or until it is switched off.
 */
export type GraphFault =
  /** As if a bucket were empty; seen with all three statuses. */
  | { readonly kind: 'ratelimited'; readonly status?: 200 | 400 | 429; readonly retryAfterSeconds?: number }
  | { readonly kind: 'authentication'; readonly status?: 200 | 400 | 401 }
  | { readonly kind: 'forbidden' }
  | { readonly kind: 'internal' }
  /** Everything is answered but what is at `path`: that is null, and an error says so. */
  | { readonly kind: 'partial'; readonly path: readonly (string | number)[]; readonly message?: string }
  | WireFault

export type TokenFault =
  | {
      readonly kind: 'oauth'
      readonly error: string
      readonly status?: number
      readonly description?: string
    }
  | { readonly kind: 'too-many'; readonly retryAfterSeconds?: number }
  /** Answered in full, but without a new refresh token: the old one stays good. */
  | { readonly kind: 'no-refresh-token' }
  | WireFault

/** What can happen to any answer. */
export type WireFault =
  | { readonly kind: 'html'; readonly status?: number }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'reset' }
  /** The headers and a part of the body, and then nothing more. */
  | { readonly kind: 'cut' }

export interface FaultTarget {
  readonly times?: number
  /** By the operation's name, or the kind of grant. */
  readonly where?: (what: string) => boolean
}

interface ArmedFault<Fault> {
  readonly fault: Fault
  readonly where: (what: string) => boolean
  times: number
}

export class FaultQueue<Fault> {
  #armed: ArmedFault<Fault>[] = []

  /** Ends after so many requests, or by the function that is answered. */
  add(fault: Fault, { times = Number.POSITIVE_INFINITY, where = () => true }: FaultTarget = {}): () => void {
    const armed = { fault, where, times }
    this.#armed.push(armed)
    return () => {
      this.#armed = this.#armed.filter((one) => one !== armed)
    }
  }

  clear(): void {
    this.#armed = []
  }

  /** The first that is meant for this request; it counts as used. */
  next(what: string): Fault | undefined {
    const armed = this.#armed.find((one) => one.where(what))
    if (armed === undefined) return undefined
    armed.times--
    if (armed.times <= 0) this.#armed = this.#armed.filter((one) => one !== armed)
    return armed.fault
  }
}

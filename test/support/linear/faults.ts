/** Faults that a test switches on, for a number of requests or until it switches them off. */
export type GraphFault =
  /** Reports an empty bucket; Linear uses all three statuses. */
  | { readonly kind: 'ratelimited'; readonly status?: 200 | 400 | 429; readonly retryAfterSeconds?: number }
  | { readonly kind: 'authentication'; readonly status?: 200 | 400 | 401 }
  | { readonly kind: 'forbidden' }
  | { readonly kind: 'internal' }
  /** The value at `path` is null, with an error for it. */
  | { readonly kind: 'partial'; readonly path: readonly (string | number)[]; readonly message?: string }
  | ReplyFault

export type TokenFault =
  | {
      readonly kind: 'oauth'
      readonly error: string
      readonly status?: number
      readonly description?: string
    }
  | { readonly kind: 'too-many'; readonly retryAfterSeconds?: number }
  /** Omits the new refresh token; the old one stays valid. */
  | { readonly kind: 'no-refresh-token' }
  | ReplyFault

/** Faults of any reply. */
export type ReplyFault =
  | { readonly kind: 'html'; readonly status?: number }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'reset' }
  /** Sends the headers and part of the body, then nothing. */
  | { readonly kind: 'cut' }

export interface FaultTarget {
  readonly times?: number
  /** Matches the operation name or the grant type. */
  readonly where?: (what: string) => boolean
}

interface ArmedFault<Fault> {
  readonly fault: Fault
  readonly where: (what: string) => boolean
  times: number
}

export class FaultQueue<Fault> {
  #armed: ArmedFault<Fault>[] = []

  /** The fault ends after `times` requests, or when the returned function is called. */
  add(fault: Fault, { times = Number.POSITIVE_INFINITY, where = () => true }: FaultTarget = {}): () => void {
    const armed = { fault, where, times }
    this.#armed.push(armed)
    return () => {
      this.#armed = this.#armed.filter((candidate) => candidate !== armed)
    }
  }

  clear(): void {
    this.#armed = []
  }

  /** First fault that matches the request; counts as used. */
  next(what: string): Fault | undefined {
    const armed = this.#armed.find((candidate) => candidate.where(what))
    if (armed === undefined) return undefined
    armed.times--
    if (armed.times <= 0) this.#armed = this.#armed.filter((candidate) => candidate !== armed)
    return armed.fault
  }
}

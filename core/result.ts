/**
 * The result type of rules and ports: a value, or a refusal.
 *
 * A rule returns a result and throws only for bugs. A refusal has a kind, which the HTTP layer turns into a status,
 * and one sentence for the person: what was wrong, and what cures it. A refusal never contains a secret.
 */
import type { FoundKey } from '../protocol/found-key.ts'
import type { FailureKind } from '../protocol/frames.ts'

export type RefusalKind =
  | 'invalid' //      the request itself is wrong; asking again unchanged is pointless
  | 'unauthorized' // who is asking is not known
  | 'forbidden' //    who is asking is known, or comes from a place that may not ask
  | 'unknown' //      no such thing
  | 'conflict' //     not in this state; may be possible later
  | 'gone' //         it was there, and is not coming back
  | 'failed' //       the service could not do it
  | 'unavailable' //  the service is stopping, or its disk is full

export interface Refusal {
  readonly kind: RefusalKind
  readonly message: string
  /** The shortest wait after which a retry can succeed. */
  readonly retryAfterMs?: number
  /** The kind of failure of a run that ends with this refusal. */
  readonly failure?: FailureKind
  /** Work is not published because of these, until a person says otherwise. */
  readonly keys?: readonly FoundKey[]
  /** Differs when the work holds other keys. */
  readonly keysDigest?: string
  /** The settings that a person must confirm before the same request can succeed. */
  readonly confirm?: readonly string[]
}

export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal }

/** The message after a bug: the person who asked learns only where to read more. */
export const SERVICE_FAILED = 'the service failed; its log says why'

/** A refusal, assignable to every `Result<T>`. */
export type Refused = { readonly ok: false; readonly refusal: Refusal }

export const yes = <T>(value: T): Result<T> => ({ ok: true, value })

export const no = (kind: RefusalKind, message: string, retryAfterMs?: number): Refused => ({
  ok: false,
  refusal: { kind, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
})

/**
 * Decides from a worker's dispatch refusals whether the worker goes on hold.
 *
 * A worker puts a class in front of its reason (`disk: 200 MB free`). `busy` passes by itself. A sandbox that does
 * not start or a full disk does not pass: three such refusals close together put the worker on hold, so that the
 * queue does not waste its runs there. A hold ends ten minutes after the refusal that caused it, or when an operator
 * enables the worker, which clears its history. The history needs to keep only `relevantRejections`.
 */
import { REJECTION_CHARS_MAX } from '../../protocol/limits.ts'
import { toSingleLine, truncate } from '../safe-text.ts'

/** This many dispatches refused because of the machine within the window put a worker on hold for WORKER_HOLD_MS. */
export const WORKER_HOLD_REJECTIONS = 3
export const WORKER_HOLD_WINDOW_MS = 5 * 60_000
export const WORKER_HOLD_MS = 10 * 60_000

export const REJECTION_CLASSES = ['busy', 'draining', 'sandbox', 'disk', 'malformed', 'other'] as const
export type RejectionClass = (typeof REJECTION_CLASSES)[number]

/** The host's own words for a worker that is connected and does not react. */
export const NO_ANSWER = 'no answer to a dispatch'

export interface Rejection {
  readonly class: RejectionClass
  readonly detail: string
}

/** `at`: wall milliseconds. The class is any text, because it is also read from stored data. */
export interface PastRejection {
  readonly at: number
  readonly class: string
  readonly detail: string
}

export function parseRejection(reason: string): Rejection {
  const text = truncate(toSingleLine(reason), REJECTION_CHARS_MAX)
  const [head = '', ...rest] = text.split(':')
  const named = REJECTION_CLASSES.find((name) => name !== 'other' && name === head.trim().toLowerCase())
  return named === undefined
    ? { class: 'other', detail: text }
    : { class: named, detail: rest.join(':').trim() }
}

/** Returns why the worker gets no dispatch now; undefined when it is not on hold. */
export function holdReason(history: readonly PastRejection[], now: number): string | undefined {
  const cause = holdCause(history, now)
  if (cause === undefined) return undefined
  const minutes = WORKER_HOLD_WINDOW_MS / 60_000
  const last = cause.detail === '' ? cause.class : `${cause.class}: ${cause.detail}`
  return `refused ${WORKER_HOLD_REJECTIONS} dispatches within ${minutes} minutes, the last with "${last}"`
}

/** Returns when the current hold ends by itself; undefined when there is none. */
export function holdEndsAt(history: readonly PastRejection[], now: number): number | undefined {
  const cause = holdCause(history, now)
  return cause === undefined ? undefined : cause.at + WORKER_HOLD_MS
}

/** Returns the refusals that can still cause or prolong a hold. */
export function relevantRejections<T extends PastRejection>(history: readonly T[], now: number): T[] {
  const since = now - WORKER_HOLD_WINDOW_MS - WORKER_HOLD_MS
  return history.filter((past) => isMachineFault(past) && past.at > since && past.at <= now)
}

/** The last refusal that completed a set of three. Instants in the future come from a wrong clock and are ignored. */
function holdCause(history: readonly PastRejection[], now: number): PastRejection | undefined {
  const counting = relevantRejections(history, now).sort((a, b) => a.at - b.at)
  const completing = counting.filter((rejection, index) => {
    const first = counting[index - WORKER_HOLD_REJECTIONS + 1]
    return first !== undefined && rejection.at - first.at <= WORKER_HOLD_WINDOW_MS
  })
  const last = completing.at(-1)
  return last !== undefined && now < last.at + WORKER_HOLD_MS ? last : undefined
}

function isMachineFault(rejection: PastRejection): boolean {
  return rejection.class === 'sandbox' || rejection.class === 'disk'
}

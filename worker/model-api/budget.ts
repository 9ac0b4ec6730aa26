/**
 * `ModelBudget` lets a request go when its worst case fits into what is left, and lets it wait when it does not.
 *
 * Spent and reserved money never pass the budget together, except that one request at a time goes without fitting while
 * something is left. So nothing exceeds the budget by more than one request, and no run stands still.
 * Requests go in the order in which they came.
 */

export interface Reservation {
  /** Tells what of the reservation was spent so far; it counts as spent from then on. */
  spend(usd: number): void
  /** The request is over, and so is its reservation. */
  settle(): void
}

export interface ModelBudget {
  /** Resolves without a reservation when nothing is left and nobody is under way, or when the signal aborts. */
  reserve(usd: number, signal: AbortSignal): Promise<Reservation | undefined>
  /** No reservation stands. */
  isIdle(): boolean
}

export interface ModelBudgetOptions {
  /** Absent: there is no limit. */
  readonly maxUsd?: number
  /** The sum of all requests so far, those under way included. */
  readonly spentUsd: () => number
}

interface Waiting {
  readonly usd: number
  readonly settle: (reservation: Reservation | undefined) => void
}

interface Held {
  usd: number
  /** The request went although it did not fit, and does not count as reserved. */
  readonly isBeyond: boolean
}

export function createModelBudget({
  maxUsd = Number.POSITIVE_INFINITY,
  spentUsd,
}: ModelBudgetOptions): ModelBudget {
  const waiting = new Set<Waiting>()
  const held = new Set<Held>()

  const committedUsd = (): number =>
    [...held].reduce((sum, { usd, isBeyond }) => sum + (isBeyond ? 0 : usd), spentUsd())

  function admit(): void {
    for (const next of waiting) {
      const committed = committedUsd()
      const fits = committed + next.usd <= maxUsd
      const mayGo = fits || (committed < maxUsd && ![...held].some(({ isBeyond }) => isBeyond))
      const isSpent = spentUsd() >= maxUsd
      // A refusal ends the run, and with it each request that is under way.
      if (isSpent ? held.size > 0 : !mayGo) return
      waiting.delete(next)
      next.settle(isSpent ? undefined : reservationOf({ usd: next.usd, isBeyond: !fits }))
    }
  }

  function reservationOf(reserved: Held): Reservation {
    held.add(reserved)
    return {
      spend: (usd) => {
        reserved.usd = Math.max(0, reserved.usd - usd)
      },
      settle: () => {
        held.delete(reserved)
        admit()
      },
    }
  }

  return {
    reserve: (usd, signal) =>
      new Promise((resolve) => {
        if (signal.aborted) return void resolve(undefined)
        const leave = () => {
          waiting.delete(entry)
          entry.settle(undefined)
          admit()
        }
        const entry: Waiting = {
          usd,
          settle: (reservation) => {
            signal.removeEventListener('abort', leave)
            resolve(reservation)
          },
        }
        signal.addEventListener('abort', leave, { once: true })
        waiting.add(entry)
        admit()
      }),
    isIdle: () => held.size === 0,
  }
}

/**
 * Which worker a queued run goes to, and why it waits when it goes to none.
 *
 * The question is asked of facts as they are now, and asked again when one of them changes. What a person reads is
 * made here too, so that the reason shown is the reason acted on. The most free slots win, then the fewest used, then
 * the id: work spreads, and the same facts always give the same answer.
 */
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Placement, WorkerState } from '../../protocol/worker.ts'
import { cut } from '../safe-text.ts'

export interface WorkerFacts {
  readonly id: string
  readonly name: string
  readonly state: WorkerState
  readonly online: boolean
  readonly max: number
  readonly used: number
  /** Not asked again before, because it refused a dispatch. */
  readonly pausedUntil?: number
  /** Why it gets no dispatch until this is cleared. */
  readonly hold?: string
}

export interface Want {
  readonly runId: string
  /** The worker whose sandbox a follow-up needs. */
  readonly on?: string
  /** What the run itself waits for, whatever the workers are like; a whole sentence. */
  readonly waitingFor?: string
}

export type Place =
  | { readonly is: 'placed'; readonly worker: string }
  | { readonly is: 'waits'; readonly reason: string }

/** The first thing that keeps this worker from this run. `holder`: what the worker that the run needs is called. */
export function exclusion(
  worker: WorkerFacts,
  want: Want,
  now: number,
  holder: string | undefined = want.on,
): string | undefined {
  const bar = barOf(worker, want, now)
  return bar === undefined ? undefined : sentences[bar](worker, holder)
}

export function place(want: Want, workers: Iterable<WorkerFacts>, now: number): Place {
  const all = [...workers]
  if (want.waitingFor !== undefined) return { is: 'waits', reason: cut(want.waitingFor, TEXT_CHARS_MAX) }
  const best = all.filter((worker) => barOf(worker, want, now) === undefined).toSorted(preferred)[0]
  if (best !== undefined) return { is: 'placed', worker: best.id }
  return { is: 'waits', reason: reasonToWait(want, all, now) }
}

export function explained(want: Want, workers: Iterable<WorkerFacts>, now: number): Placement {
  const all = [...workers]
  const holder = holderName(want, all)
  const found = place(want, all, now)
  return {
    runId: want.runId,
    ...(found.is === 'placed' ? { worker: found.worker } : { reason: found.reason }),
    workers: all.map((worker) => {
      const reason = exclusion(worker, want, now, holder)
      return {
        id: worker.id,
        name: worker.name,
        free: freeSlots(worker),
        ...(reason === undefined ? {} : { reason }),
      }
    }),
  }
}

// ---- one worker ------------------------------------------------------------------------------------------------

type Bar = 'away' | 'draining' | 'held' | 'paused' | 'full' | 'elsewhere'

const sentences: Readonly<Record<Bar, (worker: WorkerFacts, holder: string | undefined) => string>> = {
  away: () => 'not connected',
  draining: () => 'draining',
  held: ({ hold }) => `on hold: ${hold}`,
  paused: ({ pausedUntil = 0 }) =>
    `refused a dispatch; asked again at ${new Date(pausedUntil).toISOString()}`,
  full: ({ max }) => `all ${max} slots taken`,
  elsewhere: (_, holder) => `worker ${holder} holds the sandbox`,
}

function barOf(worker: WorkerFacts, want: Want, now: number): Bar | undefined {
  if (!worker.online) return 'away'
  if (worker.state === 'draining') return 'draining'
  if (worker.hold !== undefined) return 'held'
  if (worker.pausedUntil !== undefined && now < worker.pausedUntil) return 'paused'
  if (freeSlots(worker) === 0) return 'full'
  return want.on === undefined || want.on === worker.id ? undefined : 'elsewhere'
}

/** A maximum can be lowered below what is used already. */
function freeSlots({ max, used }: WorkerFacts): number {
  return Math.max(0, max - used)
}

function preferred(a: WorkerFacts, b: WorkerFacts): number {
  return freeSlots(b) - freeSlots(a) || a.used - b.used || (a.id < b.id ? -1 : 1)
}

// ---- all of them -----------------------------------------------------------------------------------------------

/** The obstacle of the worker that is nearest to taking it speaks for all. */
function reasonToWait(want: Want, all: readonly WorkerFacts[], now: number): string {
  if (want.on !== undefined) return `worker ${holderName(want, all)} holds the sandbox`
  const bars = new Set(all.map((worker) => barOf(worker, want, now)))
  if (bars.has('full')) return 'fleet at capacity'
  if (bars.has('paused')) return 'all workers refused a dispatch a moment ago'
  if (bars.has('held')) return 'all workers are on hold'
  return bars.has('draining') ? 'all workers are draining' : 'no workers connected'
}

function holderName({ on }: Want, all: readonly WorkerFacts[]): string | undefined {
  return all.find(({ id }) => id === on)?.name ?? on
}

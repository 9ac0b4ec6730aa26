/**
 * WakeTurns counts the queued runs for which sleeping workers were told to wake, so that the others can sleep on.
 *
 * A supervisor asks for the demand while its worker is away. The first ones that ask get a turn, as many as the queued
 * runs need. A turn ends when the worker connects, when no run is queued any more, or after `WAKE_TURN_MS`: a machine
 * that does not come must not keep the others asleep. All is in memory, because a lost turn only wakes one worker more.
 */
import type { Clock } from '../../core/ports.ts'
import { WAKE_TURN_MS } from '../../protocol/limits.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerRegistry } from './worker-registry.ts'

interface WakeTurn {
  readonly since: number
  readonly until: number
  /** So many runs the worker takes when it comes. */
  readonly slots: number
}

export class WakeTurns {
  readonly #workers: WorkerRegistry
  readonly #clock: Clock
  /** By worker. A turn that is over stays, so that its worker is told of all runs but counts for none. */
  readonly #turns = new Map<string, WakeTurn>()

  constructor({ workers, clock }: { readonly workers: WorkerRegistry; readonly clock: Clock }) {
    this.#workers = workers
    this.#clock = clock
  }

  /** Returns for how many of the wanted runs other workers wake; this worker gets a turn when some are left. */
  promisedToOthers(worker: EnrolledWorker, wanted: number): number {
    const { id, online, state, context } = worker
    if (wanted === 0 || this.#hasCome(worker)) this.#turns.delete(id)
    if (online || wanted === 0 || state !== 'active' || this.#turns.has(id)) return 0
    const now = this.#clock.monotonic()
    const promised = this.#countPromised(now)
    if (promised >= wanted) return wanted
    const { once = false, maxConcurrency = 1 } = context.capabilities ?? {}
    this.#turns.set(id, { since: now, until: now + WAKE_TURN_MS, slots: once ? 1 : maxConcurrency })
    return promised
  }

  /** Whether the worker has connected since its turn began; it may be away again, and nobody asked meanwhile. */
  #hasCome({ id, online, lastFrameAt }: EnrolledWorker): boolean {
    const turn = this.#turns.get(id)
    return online || (turn !== undefined && lastFrameAt > turn.since)
  }

  #countPromised(now: number): number {
    let promised = 0
    for (const [id, { until, slots }] of this.#turns) {
      const worker = this.#workers.get(id)
      if (worker === undefined || this.#hasCome(worker)) this.#turns.delete(id)
      else if (until > now) promised += slots
    }
    return promised
  }
}

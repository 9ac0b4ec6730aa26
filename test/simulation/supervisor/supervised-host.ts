/**
 * SupervisedHost models the host as a supervisor meets it: a queue, one worker's record and leases, its drain.
 *
 * It keeps the rules of the specification and nothing else: no dispatch to a draining worker, a drain applied before its
 * answer, zero figures while the worker is away. Requests and answers are late or get lost.
 */
import { addDrainHolder, releaseDrainHolder } from '../../../core/fleet/drain-holders.ts'
import type { DemandAnswer, DemandRequest, OwnDemand } from '../../../core/fleet/supervision.ts'
import type { DrainHolder } from '../../../protocol/worker.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import type { Random } from '../../support/random.ts'

export const SLOTS = 2

/** Work on the worker: a run from its dispatch to its end, or a terminal. */
export interface WorkInFlight {
  readonly what: 'run' | 'terminal'
  readonly beganAt: number
  /** Whether an operator's order, and not the supervisor, had made the worker active or let somebody in. */
  readonly byOperator: boolean
}

export class SupervisedHost {
  queue = 0
  isUp = true
  isConnected = false
  isFaulty = true
  holders: readonly DrainHolder[] = []
  /** Whether an operator ended the last drain. */
  enabledByOperator = false
  readonly runs = new Set<WorkInFlight>()
  readonly terminals = new Set<WorkInFlight>()
  /** The last answer that reached a supervisor. */
  answeredAt = 0
  lastAnswer: OwnDemand | undefined
  onDispatch: (run: WorkInFlight) => void = () => {}
  readonly #clock: ManualClock
  readonly #random: Random

  constructor(clock: ManualClock, random: Random) {
    this.#clock = clock
    this.#random = random
  }

  // ---- operators and the scheduler -----------------------------------------------------------------------------------

  drain(by: DrainHolder): void {
    this.holders = addDrainHolder(this.holders, by)
  }

  enable(): void {
    this.holders = []
    this.enabledByOperator = true
    this.schedule()
  }

  release(by: DrainHolder): void {
    if (this.holders.length === 0) return
    this.holders = releaseDrainHolder(this.holders, by)
    if (this.holders.length === 0) this.enabledByOperator = by !== 'supervisor'
    this.schedule()
  }

  schedule(): void {
    while (
      this.isUp &&
      this.isConnected &&
      this.holders.length === 0 &&
      this.queue > 0 &&
      this.runs.size < SLOTS
    ) {
      this.queue -= 1
      const run = {
        what: 'run',
        beganAt: this.#clock.monotonic(),
        byOperator: this.enabledByOperator,
      } as const
      this.runs.add(run)
      this.onDispatch(run)
    }
  }

  /** The run ended, or goes back to the queue. */
  endRun(run: WorkInFlight, queuedAgain: boolean): void {
    if (!this.runs.delete(run)) return
    if (queuedAgain) this.queue += 1
    this.schedule()
  }

  // ---- the state and demand routes -----------------------------------------------------------------------------------

  async ask(request: DemandRequest, isAlive: () => boolean): Promise<DemandAnswer> {
    const random = this.#random
    const fate = this.isFaulty ? random.fraction() : 1
    const silence: DemandAnswer = { is: 'unanswered', reason: 'no answer' }
    await this.#wait(random.below(2_000))
    if (!this.isUp || fate < 0.04) return await this.#silent(silence)
    if (fate < 0.06) {
      // The request is carried out after its sender has given up.
      void this.#wait(random.below(10_000)).then(() => this.isUp && this.#apply(request))
      return await this.#silent(silence)
    }
    this.#apply(request)
    const demand = this.demand()
    const at = this.#clock.monotonic()
    await this.#wait(random.below(fate < 0.2 ? 4_000 : 200))
    if (fate < 0.1 || !this.isUp) return await this.#silent(silence)
    if (isAlive()) {
      this.answeredAt = at
      this.lastAnswer = demand
    }
    return { is: 'answered', demand }
  }

  #apply(request: DemandRequest): void {
    if (request === 'drain') this.drain('supervisor')
    if (request === 'lift') this.release('supervisor')
  }

  demand(): OwnDemand {
    const { queue, isConnected, holders, runs, terminals } = this
    return {
      queuedRuns: queue,
      wanted: queue,
      activeRuns: runs.size,
      connectedWorkers: isConnected ? 1 : 0,
      spareCapacity: 0,
      worker: {
        id: 'wk-1',
        connected: isConnected,
        ...(holders.length === 0
          ? { state: 'active' as const }
          : { state: 'draining' as const, drainedBy: [...holders] }),
        activeRuns: isConnected ? runs.size : 0,
        attachSessions: isConnected ? terminals.size : 0,
      },
    }
  }

  async #silent(answer: DemandAnswer): Promise<DemandAnswer> {
    await this.#wait(15_000)
    return answer
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(ms, resolve))
  }
}

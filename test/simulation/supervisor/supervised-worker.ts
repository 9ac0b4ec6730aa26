/**
 * SupervisedWorker models the worker's process: it connects, takes dispatches, holds terminals, finishes its work after
 * SIGTERM, and reports what a stop destroyed.
 */
import type { Cancel } from '../../../core/ports/clock.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import type { Random } from '../../support/random.ts'
import type { SupervisedHost, WorkInFlight } from './supervised-host.ts'

/** After so long the host gives the runs of a lost worker to another one. */
const LEASE_MS = 165_000

export class SupervisedWorker {
  state: 'down' | 'serving' | 'ending' = 'down'
  readonly executing = new Set<WorkInFlight>()
  onDown: () => void = () => {}
  readonly #clock: ManualClock
  readonly #random: Random
  readonly #host: SupervisedHost
  #cancelConnect: Cancel = () => {}

  constructor(clock: ManualClock, random: Random, host: SupervisedHost) {
    this.#clock = clock
    this.#random = random
    this.#host = host
    host.onDispatch = (run) => this.#receive(run)
  }

  boot(): void {
    if (this.state !== 'down') return
    this.state = 'serving'
    this.connectAfter(1_000 + this.#random.below(5_000))
  }

  /** SIGTERM: what runs is finished, and nothing new is taken. */
  terminate(): void {
    if (this.state !== 'serving') return
    this.state = 'ending'
    this.#endIfEmpty()
  }

  /** The process is gone; returns what it was at. */
  kill(): readonly WorkInFlight[] {
    if (this.state === 'down') return []
    const lost = [...this.executing, ...this.#host.terminals]
    this.executing.clear()
    this.#goDown()
    return lost
  }

  disconnect(): void {
    this.#cancelConnect()
    this.#host.isConnected = false
  }

  connectAfter(ms: number): void {
    this.#cancelConnect()
    this.#cancelConnect = this.#clock.after(ms, () => {
      if (this.state === 'down') return
      if (!this.#host.isUp) {
        this.connectAfter(5_000)
        return
      }
      this.#host.isConnected = true
      this.#host.schedule()
    })
  }

  openTerminal(ms: number): void {
    if (this.state !== 'serving' || !this.#host.isConnected) return
    const terminal: WorkInFlight = { what: 'terminal', beganAt: this.#clock.monotonic(), byOperator: false }
    this.#host.terminals.add(terminal)
    this.#clock.after(ms, () => {
      this.#host.terminals.delete(terminal)
      this.#endIfEmpty()
    })
  }

  #receive(run: WorkInFlight): void {
    this.#clock.after(this.#random.below(2_000), () => {
      if (this.state === 'serving') this.#execute(run)
      // A worker that ends refuses; one that is gone loses the lease.
      else this.#clock.after(this.state === 'ending' ? 0 : LEASE_MS, () => this.#host.endRun(run, true))
    })
  }

  #execute(run: WorkInFlight): void {
    this.executing.add(run)
    this.#clock.after(5_000 + this.#random.below(240_000), () => this.#complete(run))
  }

  #complete(run: WorkInFlight): void {
    if (!this.executing.has(run)) return
    if (!this.#host.isConnected) {
      // The result is reported at the next connection.
      this.#clock.after(2_000, () => this.#complete(run))
      return
    }
    this.executing.delete(run)
    this.#host.endRun(run, false)
    this.#endIfEmpty()
  }

  #endIfEmpty(): void {
    if (this.state === 'ending' && this.executing.size === 0 && this.#host.terminals.size === 0)
      this.#goDown()
  }

  #goDown(): void {
    this.state = 'down'
    this.disconnect()
    this.#host.terminals.clear()
    // Runs that the worker had not reported are queued again.
    for (const run of [...this.#host.runs]) this.#clock.after(LEASE_MS, () => this.#host.endRun(run, true))
    this.onDown()
  }
}

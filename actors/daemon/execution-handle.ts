/**
 * One execution as the daemon holds it: its phases called once each and in order, whatever stops it in between.
 *
 * However it ends, what it left is collected (`finish`) and its processes are confirmed gone before anybody is told.
 * The contract says that no phase rejects; one that does all the same ends its own run and nobody else's.
 */
import { isNativeError } from 'node:util/types'
import { failed } from '../../core/daemon/outcome.ts'
import type { Execution, Progress, StopOrder, Worked } from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { RunOutcome } from '../../protocol/frames.ts'

export interface HandlePorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
  readonly prepared: (progress: Progress) => void
  readonly couldNotPrepare: (reason: string) => void
  readonly worked: (worked: Worked) => void
  readonly ended: (said: RunOutcome) => void
  /** Every process of it is gone: told once, and maybe long after `ended`. */
  readonly gone: () => void
}

/** After this much waiting for processes to go, a run's end is told without. */
const GONE_MS_MAX = 60_000

export class Handle {
  readonly #leaseId: string
  readonly #execution: Execution
  readonly #ports: HandlePorts
  /** A phase is under way. */
  #busy = false
  #closing = false
  #isGone = false
  #order: StopOrder | undefined

  constructor(leaseId: string, execution: Execution, ports: HandlePorts) {
    this.#leaseId = leaseId
    this.#execution = execution
    this.#ports = ports
  }

  prepare(): void {
    const refused = (reason: string): Result<Progress> => no('failed', reason)
    void this.#phase(() => this.#execution.prepare(), refused).then((answer) => {
      if (this.#order !== undefined) void this.#close(stoppedBy(this.#order))
      else if (answer.ok) this.#ports.prepared(answer.value)
      else this.#ports.couldNotPrepare(answer.refusal.message)
    })
  }

  work(): void {
    if (this.#closing) return
    const broke = (reason: string): Worked => ({ verdict: 'failed', reason })
    void this.#phase(() => this.#execution.work(), broke).then((worked) => {
      if (this.#order !== undefined) void this.#close(stoppedBy(this.#order))
      else this.#ports.worked(worked)
    })
  }

  finish(worked: Worked): void {
    void this.#close(worked)
  }

  /** Again with the same order: nothing. A kill may follow on an interrupt. */
  stop(order: StopOrder): void {
    if (this.#isGone || this.#order?.how === 'kill' || this.#order?.how === order.how) return
    this.#order = order
    try {
      this.#execution.stop(order)
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'an execution could not be told to stop')
    }
    // Between two phases nobody else would notice.
    if (!this.#busy) void this.#close(stoppedBy(order))
  }

  async #close(worked: Worked): Promise<void> {
    if (this.#closing) return
    this.#closing = true
    const said = await this.#phase(() => this.#execution.finish(worked), failed)
    const gone = this.#confirmed()
    await this.#withPatience(gone)
    this.#ports.ended(said)
    await gone
    this.#ports.gone()
  }

  async #confirmed(): Promise<void> {
    try {
      await this.#execution.gone()
      this.#isGone = true
    } catch (error) {
      this.#ports.log.error(
        { lease: this.#leaseId, err: error },
        'the end of an execution could not be confirmed',
      )
    }
  }

  #withPatience(gone: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const enough = this.#ports.clock.after(GONE_MS_MAX, resolve)
      void gone.then(() => {
        enough()
        resolve()
      })
    })
  }

  async #phase<T>(run: () => Promise<T>, broken: (reason: string) => T): Promise<T> {
    this.#busy = true
    try {
      return await run()
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'a phase of an execution broke')
      return broken(`internal error: ${isNativeError(error) ? error.message : String(error)}`)
    } finally {
      this.#busy = false
    }
  }
}

const stoppedBy = ({ reason }: StopOrder): Worked => ({ verdict: 'stopped', reason })

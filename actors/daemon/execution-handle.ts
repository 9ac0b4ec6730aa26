/**
 * One execution as the daemon holds it: its phases called once each and in order, whatever stops it in between.
 *
 * However it ends, what it left is collected (`finish`) and its processes are confirmed gone before anybody is told.
 * The contract says that no phase rejects; one that does all the same ends its own run and nobody else's.
 */
import { isNativeError } from 'node:util/types'
import { failedOutcome } from '../../core/daemon/outcome.ts'
import type { AgentOutcome, Execution, Progress, StopRequest } from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { RunOutcome } from '../../protocol/frames.ts'

export interface ExecutionHandlePorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
  readonly onPrepared: (progress: Progress) => void
  readonly onPrepareFailed: (reason: string) => void
  readonly onWorked: (worked: AgentOutcome) => void
  readonly onEnded: (said: RunOutcome) => void
  /** Every process of it is gone: told once, and maybe long after `ended`. */
  readonly onGone: () => void
}

/** After this much waiting for processes to go, a run's end is told without. */
const CONFIRM_GONE_MS_MAX = 60_000

export class ExecutionHandle {
  readonly #leaseId: string
  readonly #execution: Execution
  readonly #ports: ExecutionHandlePorts
  /** A phase is under way. */
  #isPhaseRunning = false
  #isEnding = false
  #isGone = false
  #stopOrder: StopRequest | undefined

  constructor(leaseId: string, execution: Execution, ports: ExecutionHandlePorts) {
    this.#leaseId = leaseId
    this.#execution = execution
    this.#ports = ports
  }

  prepare(): void {
    const onError = (reason: string): Result<Progress> => no('failed', reason)
    void this.#runPhase(() => this.#execution.prepare(), onError).then((answer) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else if (answer.ok) this.#ports.onPrepared(answer.value)
      else this.#ports.onPrepareFailed(answer.refusal.message)
    })
  }

  work(): void {
    if (this.#isEnding) return
    const onError = (reason: string): AgentOutcome => ({ verdict: 'failed', reason })
    void this.#runPhase(() => this.#execution.runAgent(), onError).then((worked) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else this.#ports.onWorked(worked)
    })
  }

  finish(worked: AgentOutcome): void {
    void this.#end(worked)
  }

  /** Again with the same order: nothing. A kill may follow on an interrupt. */
  stop(stopOrder: StopRequest): void {
    if (this.#isGone || this.#stopOrder?.how === 'kill' || this.#stopOrder?.how === stopOrder.how) return
    this.#stopOrder = stopOrder
    try {
      this.#execution.stop(stopOrder)
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'an execution could not be told to stop')
    }
    // Between two phases nobody else would notice.
    if (!this.#isPhaseRunning) void this.#end(stoppedBy(stopOrder))
  }

  async #end(worked: AgentOutcome): Promise<void> {
    if (this.#isEnding) return
    this.#isEnding = true
    const outcome = await this.#runPhase(() => this.#execution.finish(worked), failedOutcome)
    const gone = this.#confirmGone()
    await this.#waitAtMost(gone)
    this.#ports.onEnded(outcome)
    await gone
    this.#ports.onGone()
  }

  async #confirmGone(): Promise<void> {
    try {
      await this.#execution.whenExited()
      this.#isGone = true
    } catch (error) {
      this.#ports.log.error(
        { lease: this.#leaseId, err: error },
        'the end of an execution could not be confirmed',
      )
    }
  }

  #waitAtMost(gone: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimer = this.#ports.clock.after(CONFIRM_GONE_MS_MAX, resolve)
      void gone.then(() => {
        cancelTimer()
        resolve()
      })
    })
  }

  async #runPhase<T>(run: () => Promise<T>, onError: (reason: string) => T): Promise<T> {
    this.#isPhaseRunning = true
    try {
      return await run()
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'a phase of an execution broke')
      return onError(`internal error: ${isNativeError(error) ? error.message : String(error)}`)
    } finally {
      this.#isPhaseRunning = false
    }
  }
}

const stoppedBy = ({ reason }: StopRequest): AgentOutcome => ({ verdict: 'stopped', reason })

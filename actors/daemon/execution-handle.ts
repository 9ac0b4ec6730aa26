/**
 * Runs the phases of one execution: each at most once, in order, whatever stops it in between.
 *
 * However an execution ends, `finish` collects its outputs, and its processes are confirmed gone (or 60 seconds have
 * passed) before `onEnded`. Phases promise not to reject; a rejection all the same fails only its own run.
 */
import { failedOutcome, joinStopRequests } from '../../core/daemon/outcome.ts'
import type { AgentOutcome, Execution, Progress, StopRequest } from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'

export interface ExecutionHandlePorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
  readonly onPrepared: (progress: Progress) => void
  readonly onPrepareFailed: (refusal: Refusal) => void
  readonly onAgentEnded: (agent: AgentOutcome) => void
  readonly onEnded: (outcome: RunOutcome) => void
  /** Every process of the execution is gone: called once, maybe long after `onEnded`. */
  readonly onGone: (leavesNothing: boolean) => void
}

/** `onEnded` waits at most this long for the processes to exit. */
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

  get publishesOnly(): boolean {
    return this.#execution.publishesOnly === true
  }

  prepare(): void {
    const onError = (reason: string): Result<Progress> => no('failed', reason)
    void this.#runPhase(() => this.#execution.prepare(), onError).then((answer) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else if (answer.ok) this.#ports.onPrepared(answer.value)
      else this.#ports.onPrepareFailed(answer.refusal)
    })
  }

  runAgent(): void {
    if (this.#isEnding) return
    const onError = (reason: string): AgentOutcome => ({ verdict: 'failed', reason })
    void this.#runPhase(() => this.#execution.runAgent(), onError).then((agent) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else this.#ports.onAgentEnded(agent)
    })
  }

  finish(agent: AgentOutcome): void {
    void this.#end(agent)
  }

  /** Repeating a request changes nothing. */
  stop(request: StopRequest): void {
    const stopOrder = joinStopRequests(this.#stopOrder, request)
    if (this.#isGone || stopOrder === undefined) return
    this.#stopOrder = stopOrder
    try {
      this.#execution.stop(stopOrder)
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'could not stop an execution')
    }
    // Between two phases no pending promise would notice the stop request.
    if (!this.#isPhaseRunning) void this.#end(stoppedBy(stopOrder))
  }

  async #end(agent: AgentOutcome): Promise<void> {
    if (this.#isEnding) return
    this.#isEnding = true
    const outcome = await this.#runPhase(() => this.#execution.finish(agent), failedOutcome)
    const gone = this.#confirmGone()
    await waitAtMost(this.#ports.clock, CONFIRM_GONE_MS_MAX, gone)
    this.#ports.onEnded(outcome)
    await gone
    this.#ports.onGone(this.#isGone && this.#execution.leavesNothing === true)
  }

  async #confirmGone(): Promise<void> {
    try {
      await this.#execution.whenExited()
      this.#isGone = true
    } catch (error) {
      this.#ports.log.error(
        { lease: this.#leaseId, err: error },
        'could not confirm that the processes of an execution are gone',
      )
    }
  }

  async #runPhase<T>(run: () => Promise<T>, onError: (reason: string) => T): Promise<T> {
    this.#isPhaseRunning = true
    try {
      return await run()
    } catch (error) {
      this.#ports.log.error({ lease: this.#leaseId, err: error }, 'a phase of an execution failed')
      return onError(`internal error: ${messageOf(error)}`)
    } finally {
      this.#isPhaseRunning = false
    }
  }
}

const stoppedBy = ({ reason }: StopRequest): AgentOutcome => ({ verdict: 'stopped', reason })

function waitAtMost(clock: Pick<Clock, 'after'>, ms: number, done: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const cancelTimer = clock.after(ms, resolve)
    void done.then(() => {
      cancelTimer()
      resolve()
    })
  })
}

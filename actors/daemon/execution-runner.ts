/**
 * Carries out executions through the `Executor`, with one handle each until all of its processes are gone.
 *
 * Jobs and their secrets are kept in memory here until the execution starts, and nowhere else. A run is started,
 * recovered or discarded only while nothing else on this machine works on the same run.
 */
import { failedOutcome, joinStopRequests } from '../../core/daemon/outcome.ts'
import type {
  AgentOutcome,
  Execution,
  ExecutionReport,
  Progress,
  StopRequest,
} from '../../core/daemon/ports.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import type { Job, RunOutcome } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'
import { fitOutcome, type Reports, recoverOutputs } from './reports.ts'
import type { UnstoredEnds } from './unstored-ends.ts'

/** The parts of the executions module itself. */
export interface ExecutionParts {
  readonly lookup: ExecutionLookup
  readonly outbox: FrameOutbox
  readonly reports: Reports
  readonly unstoredEnds: UnstoredEnds
}

export class ExecutionRunner {
  readonly #context: DaemonContext
  readonly #parts: ExecutionParts
  readonly #jobs = new Map<string, Job>()
  readonly #handles = new Map<string, ExecutionHandle>()
  /** By lease id, the run whose processes may be alive, or whose outputs are being recovered. */
  readonly #occupied = new Map<string, string>()
  /** Accepted leases that wait until an older execution of their run is gone. */
  readonly #waiting = new Set<string>()
  /** Runs whose sandboxes go when no process of them is left and their ends are on disk. */
  readonly #discards = new Set<string>()

  constructor(context: DaemonContext, parts: ExecutionParts) {
    this.#context = context
    this.#parts = parts
  }

  /** By lease id, the run: executions of which a process may be left. */
  get occupiedRuns(): ReadonlyMap<string, string> {
    return this.#occupied
  }

  isOccupied(runId: string): boolean {
    for (const run of this.#occupied.values()) if (run === runId) return true
    return false
  }

  // ---- jobs --------------------------------------------------------------------------------------------------------

  keepJob(leaseId: string, job: Job): void {
    this.#jobs.set(leaseId, job)
  }

  /** The execution is not going to start any more. */
  forgetJob(leaseId: string): void {
    this.#jobs.delete(leaseId)
    this.#waiting.delete(leaseId)
  }

  /** Lets the execution start when nothing else works on its run, usually at once. */
  enqueue(leaseId: string): void {
    this.#waiting.add(leaseId)
    this.#releaseWaiting()
  }

  /** Returns whether the execution was still waiting. */
  stopWaiting(leaseId: string): boolean {
    return this.#waiting.delete(leaseId)
  }

  #releaseWaiting(): void {
    for (const leaseId of [...this.#waiting]) {
      const runId = this.#parts.lookup.fieldsOf(leaseId)?.runId
      if (runId !== undefined && this.isOccupied(runId)) continue
      this.#waiting.delete(leaseId)
      this.#parts.lookup.send(leaseId, { type: 'older execution gone' })
    }
  }

  // ---- phases ------------------------------------------------------------------------------------------------------

  start(leaseId: string): void {
    const { executor, log } = this.#context
    const { lookup, outbox, reports } = this.#parts
    const fields = lookup.fieldsOf(leaseId)
    const job = this.#jobs.get(leaseId)
    this.#jobs.delete(leaseId)
    if (fields === undefined || lookup.stateOf(leaseId) !== 'preparing') return
    try {
      if (job === undefined) throw new Error('the job is not in memory any more')
      const request = { leaseId, workerId: fields.workerId, job }
      const reporter = {
        report: (report: ExecutionReport) => reports.report(leaseId, report),
        waitForCapacity: () => outbox.waitForCapacity(leaseId),
      }
      const execution = executor.start(request, reporter, (progress) =>
        reports.recordProgress(leaseId, progress),
      )
      const handle = new ExecutionHandle(leaseId, execution, this.#callbacks(leaseId))
      this.#handles.set(leaseId, handle)
      this.#occupied.set(leaseId, fields.runId)
      // This execution decides what becomes of the sandbox now.
      this.#discards.delete(fields.runId)
      handle.prepare()
    } catch (error) {
      log.error({ lease: leaseId, reason: messageOf(error) }, 'could not start an execution')
      lookup.send(leaseId, { type: 'preparation failed', reason: `internal error: ${messageOf(error)}` })
    }
  }

  runAgent(leaseId: string): void {
    if (this.#parts.lookup.stateOf(leaseId) !== 'working') return
    const handle = this.#handles.get(leaseId)
    if (handle?.publishesOnly === false) this.#parts.reports.patch(leaseId, { status: 'running' })
    handle?.runAgent()
  }

  finish(leaseId: string, agent: AgentOutcome): void {
    const { lookup, reports } = this.#parts
    if (lookup.stateOf(leaseId) !== 'finishing') return
    reports.patch(leaseId, { status: 'finalizing' })
    const handle = this.#handles.get(leaseId)
    if (handle !== undefined) handle.finish(agent)
    else
      lookup.send(leaseId, {
        type: 'ended',
        outcome: failedOutcome(agent.reason ?? 'the execution could not be started'),
      })
  }

  /** Returns whether there was anything to stop. */
  stop(leaseId: string, request: StopRequest): boolean {
    const handle = this.#handles.get(leaseId)
    if (handle === undefined) return false
    this.#context.log.info({ lease: leaseId, ...request }, 'stopping an execution')
    handle.stop(request)
    return true
  }

  killAll(reason: string): void {
    for (const handle of this.#handles.values()) handle.stop({ how: 'kill', reason })
  }

  #callbacks(leaseId: string): ExecutionListener {
    const { clock, log } = this.#context
    const { lookup, reports } = this.#parts
    return {
      clock,
      log,
      onPrepared: (progress) => {
        reports.recordProgress(leaseId, progress)
        lookup.send(leaseId, { type: 'prepared', progress: {} })
      },
      onPrepareFailed: ({ message: reason, failure }) =>
        lookup.send(leaseId, {
          type: 'preparation failed',
          reason,
          ...(failure === undefined ? {} : { failure }),
        }),
      onAgentEnded: (agent) => lookup.send(leaseId, { type: 'agent ended', agent }),
      onEnded: (outcome) => {
        reports.endLog(leaseId, new Date(clock.now()).toISOString())
        lookup.send(leaseId, { type: 'ended', outcome: fitOutcome(outcome) })
      },
      onGone: (leavesNothing) => {
        this.#handles.delete(leaseId)
        const runId = this.#occupied.get(leaseId)
        if (leavesNothing && runId !== undefined) this.#discards.add(runId)
        this.#onGone(leaseId)
      },
    }
  }

  #onGone(leaseId: string): void {
    this.#occupied.delete(leaseId)
    this.#releaseWaiting()
    this.#context.publish({ view: 'executions' })
    this.discardStored()
  }

  // ---- outputs and sandboxes -------------------------------------------------------------------------------------

  async recover(leaseId: string): Promise<void> {
    const fields = this.#parts.lookup.fieldsOf(leaseId)
    if (fields === undefined || this.#occupied.has(leaseId)) return
    this.#occupied.set(leaseId, fields.runId)
    await recoverOutputs(fields, this.#context, this.#parts)
    this.#onGone(leaseId)
  }

  /**
   * Deletes the retained sandbox, never during an execution; while one is being ended or recovered, after its end. What an
   * execution has spent is read there once more if the daemon dies, so the sandbox stays until the end is on disk.
   */
  discard(runId: string): void {
    if (this.#statesOf(runId).some((state) => !DISCARDABLE.has(state)))
      this.#context.log.warn(
        { run: runId },
        'the host asked to discard a run that is executing; its sandbox stays',
      )
    else {
      this.#discards.add(runId)
      this.discardStored()
    }
  }

  /**
   * Discards the sandboxes that have waited until the ends of their executions were on disk. After the daemon's end they
   * stay; the host asks again at the next registration.
   */
  discardStored(): void {
    if (this.#parts.lookup.isStopped) return
    for (const runId of [...this.#discards]) {
      const isUnfinished = this.#statesOf(runId).some((state) => state !== 'finished')
      if (isUnfinished || this.isOccupied(runId) || this.#parts.unstoredEnds.has(runId)) continue
      this.#discards.delete(runId)
      void this.#discardNow(runId)
    }
  }

  #statesOf(runId: string): string[] {
    const all = this.#parts.lookup.all()
    return all.flatMap(({ fields, state }) => (fields.runId === runId ? [state] : []))
  }

  async #discardNow(runId: string): Promise<void> {
    try {
      await this.#context.executor.discard(runId)
    } catch (error) {
      this.#context.log.error(
        { run: runId, reason: messageOf(error) },
        'could not delete the sandbox of a run',
      )
    }
  }
}

/** The states of an execution that needs its sandbox no more, or only to recover what it has left. */
const DISCARDABLE: ReadonlySet<string> = new Set(['finished', 'abandoned', 'recovering'])

// ---- one execution -----------------------------------------------------------------------------------------------

interface ExecutionListener {
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

/**
 * ExecutionHandle runs the phases of one execution: each at most once, in order, whatever stops it in between.
 *
 * However an execution ends, `finish` collects its outputs, and its processes are confirmed gone (or 60 seconds have
 * passed) before `onEnded`. Phases promise not to reject; a rejection all the same fails only its own run.
 */
export class ExecutionHandle {
  readonly #leaseId: string
  readonly #execution: Execution
  readonly #listener: ExecutionListener
  /** A phase is under way. */
  #isPhaseRunning = false
  #isEnding = false
  #isGone = false
  #stopOrder: StopRequest | undefined

  constructor(leaseId: string, execution: Execution, listener: ExecutionListener) {
    this.#leaseId = leaseId
    this.#execution = execution
    this.#listener = listener
  }

  get publishesOnly(): boolean {
    return this.#execution.publishesOnly === true
  }

  prepare(): void {
    const onError = (reason: string): Result<Progress> => no('failed', reason)
    void this.#runPhase(() => this.#execution.prepare(), onError).then((answer) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else if (answer.ok) this.#listener.onPrepared(answer.value)
      else this.#listener.onPrepareFailed(answer.refusal)
    })
  }

  runAgent(): void {
    if (this.#isEnding) return
    const onError = (reason: string): AgentOutcome => ({ verdict: 'failed', reason })
    void this.#runPhase(() => this.#execution.runAgent(), onError).then((agent) => {
      if (this.#stopOrder !== undefined) void this.#end(stoppedBy(this.#stopOrder))
      else this.#listener.onAgentEnded(agent)
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
      this.#listener.log.error({ lease: this.#leaseId, err: error }, 'could not stop an execution')
    }
    // Between two phases no pending promise would notice the stop request.
    if (!this.#isPhaseRunning) void this.#end(stoppedBy(stopOrder))
  }

  async #end(agent: AgentOutcome): Promise<void> {
    if (this.#isEnding) return
    this.#isEnding = true
    const outcome = await this.#runPhase(() => this.#execution.finish(agent), failedOutcome)
    const gone = this.#confirmGone()
    await waitAtMost(this.#listener.clock, CONFIRM_GONE_MS_MAX, gone)
    this.#listener.onEnded(outcome)
    await gone
    this.#listener.onGone(this.#isGone && this.#execution.leavesNothing === true)
  }

  async #confirmGone(): Promise<void> {
    try {
      await this.#execution.whenExited()
      this.#isGone = true
    } catch (error) {
      this.#listener.log.error(
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
      this.#listener.log.error({ lease: this.#leaseId, err: error }, 'a phase of an execution failed')
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

/**
 * Where executions are carried out: one handle for each, from the beginning until every process of it is gone.
 *
 * Jobs, and the secrets in them, are held here until their execution begins, and nowhere else. A run is begun, salvaged
 * and discarded only while nothing else on this machine works at it.
 */
import { isNativeError } from 'node:util/types'
import { failedOutcome } from '../../core/daemon/outcome.ts'
import type {
  AgentOutcome,
  ExecutionReport,
  Executor,
  RecoveredOutputs,
  StopRequest,
} from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { checkExecutionProgress } from '../../protocol/actor-snapshots.ts'
import type { Job } from '../../protocol/frames.ts'
import type { ExecutionContext } from './execution.machine.ts'
import { ExecutionHandle, type ExecutionHandlePorts } from './execution-handle.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'
import { fitOutcome, type Reports } from './reports.ts'

export interface ExecutionRunnerPorts {
  readonly clock: Clock
  readonly log: Log
  readonly executor: Executor
  readonly lookup: ExecutionLookup
  readonly reports: Reports
  readonly outbox: FrameOutbox
  /** Something is gone. */
  readonly onChange: () => void
}

export class ExecutionRunner {
  readonly #ports: ExecutionRunnerPorts
  readonly #jobs = new Map<string, Job>()
  readonly #handles = new Map<string, ExecutionHandle>()
  /** By lease, the run of which something runs on this machine, or is being seen to. */
  readonly #occupied = new Map<string, string>()
  /** Accepted, and waiting for an older execution of their run to be gone. */
  readonly #waiting = new Set<string>()
  /** Runs to be discarded once nothing of them runs. */
  readonly #discards = new Set<string>()

  constructor(ports: ExecutionRunnerPorts) {
    this.#ports = ports
  }

  /** By lease, its run: those of which a process may be left. */
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

  /** It is not begun any more. */
  forgetJob(leaseId: string): void {
    this.#jobs.delete(leaseId)
    this.#waiting.delete(leaseId)
  }

  /** It begins when nothing else works at its run: at once, mostly. */
  enqueue(leaseId: string): void {
    this.#waiting.add(leaseId)
    this.#releaseWaiting()
  }

  /** Answers whether it was still waiting. */
  stopWaiting(leaseId: string): boolean {
    return this.#waiting.delete(leaseId)
  }

  #releaseWaiting(): void {
    for (const leaseId of [...this.#waiting]) {
      const runId = this.#ports.lookup.fieldsOf(leaseId)?.runId
      if (runId !== undefined && this.isOccupied(runId)) continue
      this.#waiting.delete(leaseId)
      this.#ports.lookup.send(leaseId, { type: 'cleared' })
    }
  }

  // ---- phases ------------------------------------------------------------------------------------------------------

  begin(leaseId: string): void {
    const { executor, lookup, log, outbox, reports } = this.#ports
    const fields = lookup.fieldsOf(leaseId)
    const job = this.#jobs.get(leaseId)
    this.#jobs.delete(leaseId)
    if (fields === undefined || lookup.stateOf(leaseId) !== 'preparing') return
    try {
      if (job === undefined) throw new Error('its job is gone')
      const order = { leaseId, workerId: fields.workerId, job }
      const reporter = {
        report: (told: ExecutionReport) => reports.report(leaseId, told),
        waitForCapacity: () => outbox.waitForCapacity(leaseId),
      }
      const execution = executor.start(order, reporter, (progress) =>
        reports.recordProgress(leaseId, progress),
      )
      const handle = new ExecutionHandle(leaseId, execution, this.#callbacks(leaseId))
      this.#handles.set(leaseId, handle)
      this.#occupied.set(leaseId, fields.runId)
      handle.prepare()
    } catch (error) {
      log.error({ lease: leaseId, reason: messageOf(error) }, 'an execution could not be begun')
      lookup.send(leaseId, { type: 'could not prepare', reason: `internal error: ${messageOf(error)}` })
    }
  }

  work(leaseId: string): void {
    if (this.#ports.lookup.stateOf(leaseId) !== 'working') return
    this.#ports.reports.patch(leaseId, { status: 'running' })
    this.#handles.get(leaseId)?.work()
  }

  finish(leaseId: string, worked: AgentOutcome): void {
    const { lookup, reports } = this.#ports
    if (lookup.stateOf(leaseId) !== 'finishing') return
    reports.patch(leaseId, { status: 'finalizing' })
    const handle = this.#handles.get(leaseId)
    if (handle !== undefined) handle.finish(worked)
    else
      lookup.send(leaseId, {
        type: 'ended',
        outcome: failedOutcome(worked.reason ?? 'it could not be begun'),
      })
  }

  /** Answers whether there is anything to stop. */
  stop(leaseId: string, order: StopRequest): boolean {
    const handle = this.#handles.get(leaseId)
    if (handle === undefined) return false
    this.#ports.log.info({ lease: leaseId, ...order }, 'an execution is told to end')
    handle.stop(order)
    return true
  }

  killAll(reason: string): void {
    for (const handle of this.#handles.values()) handle.stop({ how: 'kill', reason })
  }

  #callbacks(leaseId: string): ExecutionHandlePorts {
    const { clock, lookup, log, reports } = this.#ports
    return {
      clock,
      log,
      onPrepared: (progress) => {
        reports.recordProgress(leaseId, progress)
        lookup.send(leaseId, { type: 'prepared', progress: {} })
      },
      onPrepareFailed: (reason) => lookup.send(leaseId, { type: 'could not prepare', reason }),
      onWorked: (worked) => lookup.send(leaseId, { type: 'worked', worked }),
      onEnded: (said) => lookup.send(leaseId, { type: 'ended', outcome: fitOutcome(said) }),
      onGone: () => {
        this.#handles.delete(leaseId)
        this.#onGone(leaseId)
      },
    }
  }

  #onGone(leaseId: string): void {
    const runId = this.#occupied.get(leaseId)
    this.#occupied.delete(leaseId)
    this.#releaseWaiting()
    this.#ports.onChange()
    if (runId !== undefined && !this.isOccupied(runId) && this.#discards.delete(runId)) this.discard(runId)
  }

  // ---- what is left ------------------------------------------------------------------------------------------------

  async salvage(leaseId: string): Promise<void> {
    const { lookup, outbox } = this.#ports
    const fields = lookup.fieldsOf(leaseId)
    if (fields === undefined || this.#occupied.has(leaseId)) return
    this.#occupied.set(leaseId, fields.runId)
    const { sandbox, costs = [], usage = [] } = await this.#trySalvage(fields)
    for (const snapshot of usage) outbox.addReport(leaseId, { is: 'usage', snapshot }, '')
    // What it told before it died is in its record already.
    if (fields.costs.length === 0 && costs.length > 0)
      lookup.send(leaseId, { type: 'spent', costs: [...costs] })
    lookup.send(leaseId, { type: 'salvaged', sandbox })
    this.#onGone(leaseId)
  }

  async #trySalvage({ runId, progress, retentionHours }: ExecutionContext): Promise<RecoveredOutputs> {
    try {
      const salvaged = await this.#ports.executor.recover(runId, progress, retentionHours)
      const { sandbox } = salvaged
      if (sandbox === undefined || checkExecutionProgress({ sandbox }).ok) return salvaged
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'what a run left could not be salvaged')
    }
    return {}
  }

  /** Never while it executes; of one that is being ended, once that is over. */
  discard(runId: string): void {
    const alive = this.#ports.lookup
      .all()
      .some(({ fields, state }) => fields.runId === runId && state !== 'finished' && state !== 'abandoned')
    if (alive) this.#ports.log.warn({ run: runId }, 'a run that is executing is not discarded')
    else if (this.isOccupied(runId)) this.#discards.add(runId)
    else void this.#discardNow(runId)
  }

  async #discardNow(runId: string): Promise<void> {
    try {
      await this.#ports.executor.discard(runId)
    } catch (error) {
      this.#ports.log.error(
        { run: runId, reason: messageOf(error) },
        'the sandbox of a run could not be deleted',
      )
    }
  }
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))

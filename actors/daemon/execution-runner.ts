/**
 * Carries out executions through the `Executor`, with one handle each until all of its processes are gone.
 *
 * Jobs and their secrets are kept in memory here until the execution starts, and nowhere else. A run is started,
 * recovered or discarded only while nothing else on this machine works on the same run.
 */
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
import type { CostEntry } from '../../protocol/cost.ts'
import type { Job } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { type ExecutionContext, isLeaseLost } from './execution.machine.ts'
import { ExecutionHandle, type ExecutionHandlePorts } from './execution-handle.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'
import { fitOutcome, type Reports } from './reports.ts'
import type { UnstoredEnds } from './unstored-ends.ts'

export interface ExecutionRunnerPorts {
  readonly clock: Clock
  readonly log: Log
  readonly executor: Executor
  readonly lookup: ExecutionLookup
  readonly reports: Reports
  readonly outbox: FrameOutbox
  readonly unstoredEnds: UnstoredEnds
  /** Called when the processes of an execution are gone. */
  readonly onChange: () => void
}

export class ExecutionRunner {
  readonly #ports: ExecutionRunnerPorts
  readonly #jobs = new Map<string, Job>()
  readonly #handles = new Map<string, ExecutionHandle>()
  /** By lease id, the run whose processes may be alive, or whose outputs are being recovered. */
  readonly #occupied = new Map<string, string>()
  /** Accepted leases that wait until an older execution of their run is gone. */
  readonly #waiting = new Set<string>()
  /** Runs whose sandboxes go when no process of them is left and their ends are on disk. */
  readonly #discards = new Set<string>()

  constructor(ports: ExecutionRunnerPorts) {
    this.#ports = ports
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
      const runId = this.#ports.lookup.fieldsOf(leaseId)?.runId
      if (runId !== undefined && this.isOccupied(runId)) continue
      this.#waiting.delete(leaseId)
      this.#ports.lookup.send(leaseId, { type: 'older execution gone' })
    }
  }

  // ---- phases ------------------------------------------------------------------------------------------------------

  start(leaseId: string): void {
    const { executor, lookup, log, outbox, reports } = this.#ports
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
    if (this.#ports.lookup.stateOf(leaseId) !== 'working') return
    const handle = this.#handles.get(leaseId)
    if (handle?.publishesOnly === false) this.#ports.reports.patch(leaseId, { status: 'running' })
    handle?.runAgent()
  }

  finish(leaseId: string, agent: AgentOutcome): void {
    const { lookup, reports } = this.#ports
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
    this.#ports.log.info({ lease: leaseId, ...request }, 'stopping an execution')
    handle.stop(request)
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
    this.#ports.onChange()
    this.discardStored()
  }

  // ---- outputs and sandboxes -------------------------------------------------------------------------------------

  async recover(leaseId: string): Promise<void> {
    const fields = this.#ports.lookup.fieldsOf(leaseId)
    if (fields === undefined || this.#occupied.has(leaseId)) return
    this.#occupied.set(leaseId, fields.runId)
    await recoverOutputs(fields, this.#ports)
    this.#onGone(leaseId)
  }

  /**
   * Deletes the retained sandbox, never during an execution; while one is being ended or recovered, after its end. What an
   * execution has spent is read there once more if the daemon dies, so the sandbox stays until the end is on disk.
   */
  discard(runId: string): void {
    if (this.#statesOf(runId).some((state) => !DISCARDABLE.has(state)))
      this.#ports.log.warn(
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
    if (this.#ports.lookup.isStopped) return
    for (const runId of [...this.#discards]) {
      const isUnfinished = this.#statesOf(runId).some((state) => state !== 'finished')
      if (isUnfinished || this.isOccupied(runId) || this.#ports.unstoredEnds.has(runId)) continue
      this.#discards.delete(runId)
      void this.#discardNow(runId)
    }
  }

  #statesOf(runId: string): string[] {
    const all = this.#ports.lookup.all()
    return all.flatMap(({ fields, state }) => (fields.runId === runId ? [state] : []))
  }

  async #discardNow(runId: string): Promise<void> {
    try {
      await this.#ports.executor.discard(runId)
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'could not delete the sandbox of a run')
    }
  }
}

/** The states of an execution that needs its sandbox no more, or only to recover what it has left. */
const DISCARDABLE: ReadonlySet<string> = new Set(['finished', 'abandoned', 'recovering'])

// ---- recovery ----------------------------------------------------------------------------------------------------

interface RecoveryPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  readonly executor: Pick<Executor, 'recover'>
  readonly lookup: ExecutionLookup
  readonly outbox: FrameOutbox
}

/** Reports what an execution has left behind whose daemon died: its sandbox, its usage and its costs. */
async function recoverOutputs(fields: ExecutionContext, ports: RecoveryPorts): Promise<void> {
  const { leaseId } = fields
  const { sandbox, costs = [], usage = [] } = await readOutputs(fields, ports)
  for (const snapshot of usage) ports.outbox.addReport(leaseId, { is: 'usage', snapshot }, '')
  // Costs that were reported before the daemon died are in the stored execution already.
  if (fields.costs.length === 0 && costs.length > 0) reportCosts(leaseId, costs, ports)
  ports.lookup.send(leaseId, { type: 'recovered', sandbox })
}

async function readOutputs(
  fields: ExecutionContext,
  { executor, log }: RecoveryPorts,
): Promise<RecoveredOutputs> {
  const { leaseId, runId, progress, retentionHours } = fields
  const ended = { leaseId, runId, isLeaseLost: isLeaseLost(fields) }
  try {
    const recovered = await executor.recover(ended, progress, retentionHours)
    const { sandbox } = recovered
    if (sandbox === undefined || checkExecutionProgress({ sandbox }).ok) return recovered
  } catch (error) {
    const reason = messageOf(error)
    log.error({ run: runId, reason }, 'could not recover the outputs of a run')
  }
  return {}
}

function reportCosts(
  leaseId: string,
  costs: readonly CostEntry[],
  { clock, lookup, outbox }: RecoveryPorts,
): void {
  const event = { type: 'cost', at: new Date(clock.now()).toISOString() } as const
  for (const entry of costs) outbox.addReport(leaseId, { is: 'event', event: { ...event, entry } }, '')
  lookup.send(leaseId, { type: 'costs reported', costs: [...costs] })
}

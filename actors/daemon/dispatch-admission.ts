/**
 * Whether this worker takes a run that the host offers: asked in turn, quickly, and answered in time.
 *
 * A refusal names its class, so that the host knows what it says about the machine. An offer that comes again for a
 * lease that is held is accepted again. One whose line went away in the meantime is forgotten: its lease is not claimed
 * on the next line, and the host offers the run elsewhere. So is one for which the host's patience is over, because this
 * process was stopped while it looked: the run is somebody else's by now, and the word of it may not have been heard.
 */
import { isNativeError } from 'node:util/types'
import type { Executor } from '../../core/daemon/ports.ts'
import type { Clock, Log, StoreState } from '../../core/ports.ts'
import { truncate } from '../../core/safe-text.ts'
import type { HostFrameOf, Job } from '../../protocol/frames.ts'
import { DISPATCH_ANSWER_MS, REJECTION_CHARS_MAX } from '../../protocol/limits.ts'
import type { Executions } from './executions.ts'
import type { HostConnection } from './host-connection.ts'
import type { ResumedSandboxes } from './resumed-sandboxes.ts'

export interface DispatchAdmissionPorts {
  readonly clock: Clock
  readonly log: Log
  readonly hostConnection: HostConnection
  readonly executions: Executions
  readonly resumedSandboxes: Pick<ResumedSandboxes, 'has'>
  readonly executor: Pick<Executor, 'refusalOf'>
  readonly concurrency: number
  /** The daemon is being stopped, one way or another. */
  readonly isStopping: () => boolean
  readonly storeState: () => StoreState
}

/** Of the time for an answer, the rest is for the disk and the line. */
const OBJECTION_MS_MAX = DISPATCH_ANSWER_MS / 2

/** What may be said of an offer before it is answered. */
interface PendingOffer {
  readonly runId: string
  /** Nobody waits for the answer any more. */
  isWithdrawn: boolean
  /** Why its run is to be cancelled: once it is taken. */
  cancelReason: string | undefined
}

export class DispatchAdmission {
  readonly #ports: DispatchAdmissionPorts
  /** By lease, those that are being looked at. */
  readonly #pending = new Map<string, PendingOffer>()

  constructor(ports: DispatchAdmissionPorts) {
    this.#ports = ports
  }

  async answerOffer({ lease, job }: HostFrameOf<'dispatch'>): Promise<void> {
    const { clock, hostConnection, executions } = this.#ports
    const { id, runId } = lease
    const standing = executions.leaseStanding(id)
    if (standing === 'held') return executions.repeatAcceptance(id)
    if (standing === 'over') return this.reject(id, 'busy: this lease is over')
    if (this.#pending.has(id)) return
    const arrivedAt = clock.monotonic()
    const connectionKey = hostConnection.connectionKey
    const pending = this.#addPending(id, runId)
    const refusal = this.#findRefusal(lease, job) ?? (await this.#findObjection(job))
    this.#pending.delete(id)
    if (connectionKey === undefined || hostConnection.connectionKey !== connectionKey || pending.isWithdrawn)
      return
    if (clock.monotonic() - arrivedAt > DISPATCH_ANSWER_MS) return
    // What was true before the executor was asked need not be true any more.
    const finalRefusal = refusal ?? this.#findRefusal(lease, job)
    if (finalRefusal !== undefined) this.reject(id, finalRefusal)
    else if (!executions.begin(lease, job, hostConnection.workerId ?? '', arrivedAt))
      this.reject(id, `busy: the execution of ${runId} could not be recorded`)
    else if (pending.cancelReason !== undefined) executions.cancel(id, pending.cancelReason)
  }

  /** The host takes an offer back before it was answered. */
  withdraw(leaseId: string): void {
    const pending = this.#pending.get(leaseId)
    if (pending !== undefined) pending.isWithdrawn = true
  }

  cancel(leaseId: string, reason: string): void {
    const pending = this.#pending.get(leaseId)
    if (pending !== undefined) pending.cancelReason = reason
  }

  /** A newer offer of the same run takes the older one's place. */
  #addPending(leaseId: string, runId: string): PendingOffer {
    for (const older of this.#pending.values()) if (older.runId === runId) older.isWithdrawn = true
    const pending: PendingOffer = { runId, isWithdrawn: false, cancelReason: undefined }
    this.#pending.set(leaseId, pending)
    return pending
  }

  reject(leaseId: string, reason: string): void {
    this.#ports.log.info({ lease: leaseId, reason }, 'a dispatch was refused')
    this.#ports.hostConnection.send({
      type: 'dispatch-rejected',
      leaseId,
      reason: truncate(reason, REJECTION_CHARS_MAX),
    })
  }

  #findRefusal({ id, runId }: HostFrameOf<'dispatch'>['lease'], job: Job): string | undefined {
    const {
      resumedSandboxes,
      concurrency,
      executions,
      isStopping,
      hostConnection,
      storeState: store,
    } = this.#ports
    if (runId !== job.run.id) return `malformed: the lease is for ${runId}, the job for ${job.run.id}`
    if (isStopping()) return 'draining: the worker is being stopped'
    if (hostConnection.workerState === 'draining') return 'draining: the worker is draining'
    if (resumedSandboxes.has(runId)) return 'busy: somebody is in the sandbox of this run'
    const disk = store()
    if (disk.is !== 'ready') return `disk: ${disk.reason}`
    const others = [...this.#pending].filter(([leaseId, { runId: run }]) => leaseId !== id && run !== runId)
    if (executions.slotsUsedByOthers(runId) + others.length >= concurrency)
      return `busy: all ${concurrency} slots are taken`
    return undefined
  }

  async #findObjection(job: Job): Promise<string | undefined> {
    try {
      return await this.#askExecutor(job)
    } catch (error) {
      return `sandbox: the worker could not look at the run: ${isNativeError(error) ? error.message : String(error)}`
    }
  }

  #askExecutor(job: Job): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      const cancelTimer = this.#ports.clock.after(OBJECTION_MS_MAX, () =>
        resolve('busy: the worker took too long to look at the run'),
      )
      this.#ports.executor.refusalOf(job).then(resolve, reject).finally(cancelTimer)
    })
  }
}

/**
 * Decides whether this worker accepts a dispatch, and answers within `DISPATCH_ANSWER_MS`.
 *
 * A rejection begins with its class (`busy`, `disk`, …), so that the host knows what it says about the machine. A
 * repeated dispatch of a held lease is accepted again. A dispatch is dropped without an answer when the connection was
 * lost meanwhile, or when the answer would be too late because this process was suspended: the host has then given the
 * run to another worker, and this worker must not start it.
 */
import { truncate } from '../../core/safe-text.ts'
import type { HostFrameOf, Job } from '../../protocol/frames.ts'
import { DISPATCH_ANSWER_MS, REJECTION_CHARS_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { DAEMON } from './daemon.names.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { Executions } from './executions.ts'
import type { ResumedSandboxes } from './resumed-sandboxes.ts'

/** Half of the time for the answer; the rest is for the commit and the network. */
const OBJECTION_MS_MAX = DISPATCH_ANSWER_MS / 2

const STOPPING = 'draining: the worker is being stopped'

/** A dispatch that is not answered yet. */
interface PendingOffer {
  readonly runId: string
  /** The host has withdrawn the dispatch, or has sent a newer one for the same run. */
  isWithdrawn: boolean
  /** Why to cancel the execution as soon as it has started; undefined: do not cancel. */
  cancelReason: string | undefined
}

export class DispatchAdmission {
  readonly #context: DaemonContext
  readonly #executions: Executions
  readonly #resumedSandboxes: ResumedSandboxes
  /** By lease id, the dispatches that are not answered yet. */
  readonly #pending = new Map<string, PendingOffer>()

  constructor(context: DaemonContext, executions: Executions, resumedSandboxes: ResumedSandboxes) {
    this.#context = context
    this.#executions = executions
    this.#resumedSandboxes = resumedSandboxes
  }

  async answerOffer({ lease, job }: HostFrameOf<'dispatch'>): Promise<void> {
    const { clock, hostSender, once } = this.#context
    const executions = this.#executions
    const { id, runId } = lease
    const standing = executions.leaseStanding(id)
    if (standing === 'held') return executions.repeatAcceptance(id)
    if (standing === 'over') return this.reject(id, 'busy: this lease is over')
    if (this.#pending.has(id)) return
    const arrivedAt = clock.monotonic()
    const connectionKey = hostSender.connectionKey
    const pending = this.#addPending(id, runId)
    const refusal = this.#findRefusal(lease, job) ?? (await this.#findObjection(job))
    this.#pending.delete(id)
    if (connectionKey === undefined || hostSender.connectionKey !== connectionKey || pending.isWithdrawn)
      return
    if (clock.monotonic() - arrivedAt > DISPATCH_ANSWER_MS) return
    // The conditions may have changed while the executor was asked.
    const finalRefusal = refusal ?? this.#findRefusal(lease, job)
    if (finalRefusal !== undefined) this.reject(id, finalRefusal)
    else if (!executions.begin(lease, this.#jobToDo(job), hostSender.workerId ?? '', arrivedAt))
      this.reject(id, `busy: the execution of ${runId} could not be recorded`)
    else {
      if (once === true) this.#context.system.send(DAEMON, DAEMON, { type: 'only run began' })
      if (pending.cancelReason !== undefined) executions.cancel(id, pending.cancelReason)
    }
  }

  #jobToDo(job: Job): Job {
    return this.#context.once === true ? { ...job, retentionHours: 0 } : job
  }

  /** The host withdraws a dispatch before it is answered. */
  withdraw(leaseId: string): void {
    const pending = this.#pending.get(leaseId)
    if (pending !== undefined) pending.isWithdrawn = true
  }

  /** The worker ends before it could answer. */
  refusePending(): void {
    for (const [leaseId, pending] of this.#pending) {
      if (pending.isWithdrawn) continue
      pending.isWithdrawn = true
      this.reject(leaseId, STOPPING)
    }
  }

  cancel(leaseId: string, reason: string): void {
    const pending = this.#pending.get(leaseId)
    if (pending !== undefined) pending.cancelReason = reason
  }

  /** A newer dispatch of the same run replaces the older one. */
  #addPending(leaseId: string, runId: string): PendingOffer {
    for (const older of this.#pending.values()) if (older.runId === runId) older.isWithdrawn = true
    const pending: PendingOffer = { runId, isWithdrawn: false, cancelReason: undefined }
    this.#pending.set(leaseId, pending)
    return pending
  }

  reject(leaseId: string, reason: string): void {
    this.#context.log.info({ lease: leaseId, reason }, 'rejected a dispatch')
    this.#context.hostSender.send({
      type: 'dispatch-rejected',
      leaseId,
      reason: truncate(reason, REJECTION_CHARS_MAX),
    })
  }

  #findRefusal({ id, runId }: HostFrameOf<'dispatch'>['lease'], job: Job): string | undefined {
    const { concurrency, isServing, hostSender, storeState } = this.#context
    const resumedSandboxes = this.#resumedSandboxes
    if (runId !== job.run.id) return `malformed: the lease is for ${runId}, the job for ${job.run.id}`
    if (!isServing()) return STOPPING
    if (hostSender.workerState === 'draining') return 'draining: the worker is draining'
    if (resumedSandboxes.has(runId)) return 'busy: somebody is in the sandbox of this run'
    const disk = storeState()
    if (disk.is !== 'ready') return `disk: ${disk.reason}`
    const pendingOffers = [...this.#pending].filter(
      ([leaseId, { runId: run }]) => leaseId !== id && run !== runId,
    )
    if (this.#executions.slotsUsedByOthers(runId) + pendingOffers.length >= concurrency)
      return `busy: all ${concurrency} slots are taken`
    return undefined
  }

  async #findObjection(job: Job): Promise<string | undefined> {
    try {
      return await this.#askExecutor(job)
    } catch (error) {
      return `sandbox: the worker could not check the run: ${messageOf(error)}`
    }
  }

  #askExecutor(job: Job): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      const cancelTimer = this.#context.clock.after(OBJECTION_MS_MAX, () =>
        resolve('busy: the worker took too long to check the run'),
      )
      this.#context.executor
        .refusalOf(job, (runId) => this.#isProtected(runId))
        .then(resolve, reject)
        .finally(cancelTimer)
    })
  }

  /** The executor may discard other sandboxes to make room; the disk of a run that is offered just now stays, too. */
  #isProtected(runId: string): boolean {
    if (this.#executions.claimsRun(runId) || this.#resumedSandboxes.has(runId)) return true
    return [...this.#pending.values()].some((offer) => offer.runId === runId)
  }
}

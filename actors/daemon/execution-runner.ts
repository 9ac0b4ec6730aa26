/**
 * Where executions are carried out: one handle for each, from the beginning until every process of it is gone.
 *
 * Jobs, and the secrets in them, are held here until their execution begins, and nowhere else. A run is begun, salvaged
 * and discarded only while nothing else on this machine works at it.
 */
import { isNativeError } from 'node:util/types'
import { failed } from '../../core/daemon/outcome.ts'
import type { Executor, Salvaged, StopOrder, Told, Worked } from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { checkExecutionProgress } from '../../protocol/actor-snapshots.ts'
import type { Job } from '../../protocol/frames.ts'
import type { ExecutionContext } from './execution.machine.ts'
import { Handle, type HandlePorts } from './execution-handle.ts'
import type { Lives } from './execution-lookup.ts'
import type { Post } from './frame-outbox.ts'
import { presentable, type Reports } from './reports.ts'

export interface WorkshopPorts {
  readonly clock: Clock
  readonly log: Log
  readonly executor: Executor
  readonly lives: Lives
  readonly reports: Reports
  readonly post: Post
  /** Something is gone. */
  readonly changed: () => void
}

export class Workshop {
  readonly #ports: WorkshopPorts
  readonly #jobs = new Map<string, Job>()
  readonly #handles = new Map<string, Handle>()
  /** By lease, the run of which something runs on this machine, or is being seen to. */
  readonly #occupied = new Map<string, string>()
  /** Accepted, and waiting for an older execution of their run to be gone. */
  readonly #waiting = new Set<string>()
  /** Runs to be discarded once nothing of them runs. */
  readonly #discards = new Set<string>()

  constructor(ports: WorkshopPorts) {
    this.#ports = ports
  }

  /** By lease, its run: those of which a process may be left. */
  get occupied(): ReadonlyMap<string, string> {
    return this.#occupied
  }

  isOccupied(runId: string): boolean {
    for (const run of this.#occupied.values()) if (run === runId) return true
    return false
  }

  // ---- jobs --------------------------------------------------------------------------------------------------------

  bring(leaseId: string, job: Job): void {
    this.#jobs.set(leaseId, job)
  }

  /** It is not begun any more. */
  forget(leaseId: string): void {
    this.#jobs.delete(leaseId)
    this.#waiting.delete(leaseId)
  }

  /** It begins when nothing else works at its run: at once, mostly. */
  queue(leaseId: string): void {
    this.#waiting.add(leaseId)
    this.#clear()
  }

  /** Answers whether it was still waiting. */
  giveUpWaiting(leaseId: string): boolean {
    return this.#waiting.delete(leaseId)
  }

  #clear(): void {
    for (const leaseId of [...this.#waiting]) {
      const runId = this.#ports.lives.fieldsOf(leaseId)?.runId
      if (runId !== undefined && this.isOccupied(runId)) continue
      this.#waiting.delete(leaseId)
      this.#ports.lives.tell(leaseId, { type: 'cleared' })
    }
  }

  // ---- phases ------------------------------------------------------------------------------------------------------

  begin(leaseId: string): void {
    const { executor, lives, log, post, reports } = this.#ports
    const fields = lives.fieldsOf(leaseId)
    const job = this.#jobs.get(leaseId)
    this.#jobs.delete(leaseId)
    if (fields === undefined || lives.stateOf(leaseId) !== 'preparing') return
    try {
      if (job === undefined) throw new Error('its job is gone')
      const order = { leaseId, workerId: fields.workerId, job }
      const telling = { tell: (told: Told) => reports.told(leaseId, told), room: () => post.room(leaseId) }
      const execution = executor.begin(order, telling, (progress) => reports.progressed(leaseId, progress))
      const handle = new Handle(leaseId, execution, this.#earsOf(leaseId))
      this.#handles.set(leaseId, handle)
      this.#occupied.set(leaseId, fields.runId)
      handle.prepare()
    } catch (error) {
      log.error({ lease: leaseId, reason: messageOf(error) }, 'an execution could not be begun')
      lives.tell(leaseId, { type: 'could not prepare', reason: `internal error: ${messageOf(error)}` })
    }
  }

  work(leaseId: string): void {
    if (this.#ports.lives.stateOf(leaseId) !== 'working') return
    this.#ports.reports.patch(leaseId, { status: 'running' })
    this.#handles.get(leaseId)?.work()
  }

  finish(leaseId: string, worked: Worked): void {
    const { lives, reports } = this.#ports
    if (lives.stateOf(leaseId) !== 'finishing') return
    reports.patch(leaseId, { status: 'finalizing' })
    const handle = this.#handles.get(leaseId)
    if (handle !== undefined) handle.finish(worked)
    else lives.tell(leaseId, { type: 'ended', said: failed(worked.reason ?? 'it could not be begun') })
  }

  /** Answers whether there is anything to stop. */
  stop(leaseId: string, order: StopOrder): boolean {
    const handle = this.#handles.get(leaseId)
    if (handle === undefined) return false
    this.#ports.log.info({ lease: leaseId, ...order }, 'an execution is told to end')
    handle.stop(order)
    return true
  }

  killAll(reason: string): void {
    for (const handle of this.#handles.values()) handle.stop({ how: 'kill', reason })
  }

  #earsOf(leaseId: string): HandlePorts {
    const { clock, lives, log, reports } = this.#ports
    return {
      clock,
      log,
      prepared: (progress) => {
        reports.progressed(leaseId, progress)
        lives.tell(leaseId, { type: 'prepared', progress: {} })
      },
      couldNotPrepare: (reason) => lives.tell(leaseId, { type: 'could not prepare', reason }),
      worked: (worked) => lives.tell(leaseId, { type: 'worked', worked }),
      ended: (said) => lives.tell(leaseId, { type: 'ended', said: presentable(said) }),
      gone: () => {
        this.#handles.delete(leaseId)
        this.#vacated(leaseId)
      },
    }
  }

  #vacated(leaseId: string): void {
    const runId = this.#occupied.get(leaseId)
    this.#occupied.delete(leaseId)
    this.#clear()
    this.#ports.changed()
    if (runId !== undefined && !this.isOccupied(runId) && this.#discards.delete(runId)) this.discard(runId)
  }

  // ---- what is left ------------------------------------------------------------------------------------------------

  async salvage(leaseId: string): Promise<void> {
    const { lives, post } = this.#ports
    const fields = lives.fieldsOf(leaseId)
    if (fields === undefined || this.#occupied.has(leaseId)) return
    this.#occupied.set(leaseId, fields.runId)
    const { sandbox, costs = [], usage = [] } = await this.#salvaged(fields)
    for (const snapshot of usage) post.tell(leaseId, { is: 'usage', snapshot }, '')
    // What it told before it died is in its record already.
    if (fields.costs.length === 0 && costs.length > 0)
      lives.tell(leaseId, { type: 'spent', costs: [...costs] })
    lives.tell(leaseId, { type: 'salvaged', sandbox })
    this.#vacated(leaseId)
  }

  async #salvaged({ runId, progress, retentionHours }: ExecutionContext): Promise<Salvaged> {
    try {
      const salvaged = await this.#ports.executor.salvage(runId, progress, retentionHours)
      const { sandbox } = salvaged
      if (sandbox === undefined || checkExecutionProgress({ sandbox }).ok) return salvaged
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'what a run left could not be salvaged')
    }
    return {}
  }

  /** Never while it executes; of one that is being ended, once that is over. */
  discard(runId: string): void {
    const alive = this.#ports.lives
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

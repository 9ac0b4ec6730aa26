/**
 * Setbacks keeps runs from workers that could not use what the runs need, such as a remote, a key or an agent.
 *
 * A setback has a subject, so one failed run holds back every run that needs the same. It ends when the configuration
 * or the worker's agents change, when a person retries a run or enables the worker, when the worker has reconnected,
 * when an edited ticket leads its run elsewhere (for that run alone), and after a while, because a code host may be back,
 * a repository be created or a key be paid for without any notice. Time and a reconnect end no setback that came after the
 * agent's work, because each try would cost that work again. The state is in memory only: after a restart each subject is
 * tried once more.
 */

import { runSubject } from '../../core/fleet/obstacles.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import { isAbout } from '../../core/run/queue-reasons.ts'
import { hasSpent, setbackReason, setbackRecheckMs } from '../../core/run/setback.ts'
import { WORKER_BACKOFF_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerRegistry } from './worker-registry.ts'

const SETBACKS_PER_WORKER_MAX = 1_000

/** A thing that a worker could not use. */
export interface Setback {
  /** The queue reason. */
  readonly reason: string
  /** Monotonic instant of the report. */
  readonly at: number
  /** The agent had worked before the setback. */
  readonly hasSpent: boolean
}

/** A timer has the name of the subject that may be tried again. */
export const SETBACK_TIMER = timerKind<string>('setback')

export class Setbacks {
  readonly #context: HostContext
  readonly #workers: WorkerRegistry

  constructor(context: HostContext, workers: WorkerRegistry) {
    this.#context = context
    this.#workers = workers
  }

  /** Records the setback of a run that its worker has just given back, and forgets those of one whose agent begins. */
  onRunChange({ before, after }: StateChange<RunContext>, needsOf: (run: Run) => JobNeeds | undefined): void {
    const { run, publishing } = after.context
    // Work that waits to be published has a backoff of its own, and says nothing about the next run's.
    if (publishing !== null) return
    const contextBefore = before?.context
    if (run.status === 'running' && contextBefore?.run.status === 'preparing') this.#forgetTries(run, needsOf)
    const reason = setbackReason(contextBefore?.run, run)
    const { workerId } = run.sandbox
    if (reason === undefined || workerId === undefined) return
    const setback = {
      reason,
      at: this.#context.timers.now(),
      hasSpent: hasSpent(run.costs.slice(contextBefore?.costsBefore)),
    }
    this.#record(workerId, run.id, needsOf(run), setback)
  }

  #record(workerId: string, runId: string, needs: JobNeeds | undefined, setback: Setback): void {
    const { reason } = setback
    const { timers, log, requestScheduling } = this.#context
    const worker = this.#workers.get(workerId)
    if (worker === undefined) return
    const subject = needs?.subjects.find((candidate) => isAbout(reason, candidate)) ?? runSubject(runId)
    const tries = (worker.setbackTries.get(subject) ?? 0) + 1
    setNewest(worker.setbackTries, subject, tries)
    setNewest(worker.setbacks, subject, setback)
    if (!setback.hasSpent)
      timers.set(SETBACK_TIMER.key(workerId), subject, setback.at + setbackRecheckMs(subject, tries))
    log.warn({ worker: workerId, run: runId, reason }, 'a run waits for what it needs')
    requestScheduling()
  }

  #forgetTries(run: Run, needsOf: (run: Run) => JobNeeds | undefined): void {
    const tries = this.#workers.get(run.sandbox.workerId ?? '')?.setbackTries
    if (tries === undefined || tries.size === 0) return
    for (const subject of needsOf(run)?.subjects ?? []) tries.delete(subject)
  }

  /** The subject may be tried again. */
  onTimer(workerId: string, subject: string): void {
    const setbacks = this.#workers.get(workerId)?.setbacks
    if (setbacks?.get(subject)?.hasSpent !== true) setbacks?.delete(subject)
    this.#context.requestScheduling()
  }

  /** The worker may have been started with other options. A connection that comes and goes must not repeat a run. */
  onReconnected(worker: EnrolledWorker): void {
    const { timers } = this.#context
    for (const [subject, setback] of worker.setbacks)
      if (!setback.hasSpent)
        timers.set(
          SETBACK_TIMER.key(worker.id),
          subject,
          Math.max(timers.now(), setback.at + WORKER_BACKOFF_MS),
        )
  }

  /** The worker may use now what it could not use before. */
  clear(worker: EnrolledWorker): void {
    worker.setbacks.clear()
    worker.setbackTries.clear()
    this.#context.timers.cancelAll(SETBACK_TIMER.key(worker.id))
    this.#context.requestScheduling()
  }

  /** A person wants the run tried again. Returns whether a setback kept the run from a worker. */
  release(runId: string, needs: JobNeeds): boolean {
    return this.#release([...needs.subjects, runSubject(runId)])
  }

  /** The run's next job is for another repository or branch, so the words of workers about the run alone are void. */
  onRunMoved({ id, sandbox }: Run): void {
    if (sandbox.workerId !== undefined) this.#release([runSubject(id)])
  }

  #release(subjects: readonly string[]): boolean {
    let isReleased = false
    for (const { setbacks } of this.#workers.all())
      for (const subject of subjects) if (setbacks.delete(subject)) isReleased = true
    if (isReleased) this.#context.requestScheduling()
    return isReleased
  }

  /** The configuration has changed. */
  clearAll(): void {
    for (const worker of this.#workers.all()) if (worker.setbackTries.size > 0) this.clear(worker)
  }

  /** The worker is no longer enrolled. */
  remove(workerId: string): void {
    this.#context.timers.cancelAll(SETBACK_TIMER.key(workerId))
  }
}

/** Keeps a bounded number of subjects: the one that changed first is dropped. */
function setNewest<T>(bySubject: Map<string, T>, subject: string, value: T): void {
  bySubject.delete(subject)
  bySubject.set(subject, value)
  for (const oldest of bySubject.keys()) {
    if (bySubject.size <= SETBACKS_PER_WORKER_MAX) return
    bySubject.delete(oldest)
  }
}

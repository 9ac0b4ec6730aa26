/**
 * PublishingRuns knows the runs whose finished work is to be published, and those of them that wait in the queue.
 *
 * A changed configuration, and with it a new credential, lets each of them try at once, and so does a wall clock that was
 * set back, by which the instant of the next try would not come for long. A run whose worker is enrolled no more has lost
 * its sandbox, so it does not wait for it.
 */
import type { HeldWork } from '../../core/attention/facts.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import { afterWorkLost, isBeyondPause, type RefusedWork, refusedWork } from '../../core/run/publishing.ts'
import { ATTENTION_RUNS_MAX, PUBLISH_AGAIN_MS_MIN } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { FinishedRuns } from './finished-runs.ts'
import { isWaiting, RUN, type RunContext, type RunMachineEvent } from './run.machine.ts'

export class PublishingRuns {
  readonly #context: HostContext
  readonly #workers: WorkerRegistry
  readonly #finishedRuns: FinishedRuns
  readonly #unpublished = new Map<string, RunContext>()
  /** Runs whose worker was lost after their agent was done. */
  readonly #done = new Map<string, Run>()
  #clockCheck: Cancel | undefined

  constructor(context: HostContext, workers: WorkerRegistry, finishedRuns: FinishedRuns) {
    this.#context = context
    this.#workers = workers
    this.#finishedRuns = finishedRuns
  }

  get size(): number {
    return this.#unpublished.size + this.#done.size
  }

  /** A run that is being tried again is among them: a try is no end of the trouble. */
  refusedWork(): RefusedWork[] {
    return refusedWork(this.#unpublished.values())
  }

  /** Runs that wait for a person's word, because their work holds keys. */
  withKeys(): Run[] {
    return this.#waiting().filter(({ foundKeys }) => foundKeys !== undefined)
  }

  /** The finished work that the sandboxes of a worker hold. */
  heldBy(workerId: string): HeldWork[] {
    const refused = [...this.#unpublished.values()].map(({ run, publishing }) => ({
      run,
      artifacts: publishing?.result?.artifacts ?? [],
    }))
    const lost = [...this.#done.values()].map((run) => ({ run, artifacts: [] }))
    return [...refused, ...lost].filter(({ run }) => run.sandbox.workerId === workerId)
  }

  onRunChange({ key, after, over, restored }: StateChange<RunContext>): void {
    const context = after.context
    if (over || context.doneAt === null) this.#done.delete(key)
    else this.#done.set(key, context.run)
    if (over || context.publishing === null) {
      this.#unpublished.delete(key)
      return
    }
    this.#unpublished.set(key, context)
    this.#clockCheck ??= this.#context.clock.after(PUBLISH_AGAIN_MS_MIN, () => this.#checkClock())
    // Runs are restored before their workers.
    if (!restored && isWaiting(context)) this.#check(context.run)
  }

  /** Everything is restored. */
  start(): void {
    for (const run of this.#waiting()) this.#check(run)
  }

  stop(): void {
    this.#clockCheck?.()
  }

  #checkClock(): void {
    const { clock } = this.#context
    for (const { run, publishing } of this.#unpublished.values())
      if (isBeyondPause(publishing, clock.now())) this.#send(run.id, { type: 'publish now' })
    const isNeeded = this.#unpublished.size > 0
    this.#clockCheck = isNeeded ? clock.after(PUBLISH_AGAIN_MS_MIN, () => this.#checkClock()) : undefined
  }

  /** The worker is enrolled no more. */
  onWorkerRemoved(workerId: string): void {
    for (const run of this.#waiting()) if (run.sandbox.workerId === workerId) this.#loseSandbox(run)
    for (const { id } of this.#context.store.database.runs.list({ limit: ATTENTION_RUNS_MAX })) {
      const run = this.#finishedRuns.latest(id)
      if (run === undefined || this.#context.system.peek(RUN, id) !== undefined) continue
      const { workerId: holder, workerName = workerId, unpublished } = run.sandbox
      if (holder === workerId && unpublished === true)
        this.#finishedRuns.update(afterWorkLost(run, `worker ${workerName} was revoked`))
    }
  }

  onConfigChange(): void {
    for (const { id, foundKeys } of this.#waiting())
      if (foundKeys === undefined) this.#send(id, { type: 'publish now' })
  }

  #waiting(): Run[] {
    return [...this.#unpublished.values()].flatMap((context) => (isWaiting(context) ? [context.run] : []))
  }

  #check(run: Run): void {
    if (this.#workers.get(run.sandbox.workerId ?? '') === undefined) this.#loseSandbox(run)
  }

  #loseSandbox({ id, sandbox: { workerName, workerId = '' } }: Run): void {
    const reason = `worker ${workerName ?? workerId} was revoked before its work could be published`
    this.#send(id, { type: 'sandbox lost', at: this.#context.instant(), reason })
  }

  #send(runId: string, event: RunMachineEvent): void {
    this.#context.system.send(RUN, runId, event)
  }
}

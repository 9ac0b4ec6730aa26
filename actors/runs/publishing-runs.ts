/**
 * PublishingRuns knows the queued runs whose finished work waits to be published.
 *
 * A changed configuration, and with it a new credential, lets each of them try at once. A run whose worker is enrolled no
 * more has lost its sandbox, so it does not wait for it.
 */
import type { Run } from '../../protocol/run.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { RunContext, RunMachineEvent } from './run.machine.ts'
import { RUN } from './run.names.ts'

export interface PublishingRunsPorts {
  readonly system: ActorSystem
  /** The current wall time as an ISO 8601 timestamp. */
  readonly instant: () => string
  readonly workers: Pick<WorkerRegistry, 'get'>
}

export class PublishingRuns {
  readonly #ports: PublishingRunsPorts
  readonly #waiting = new Map<string, Run>()

  constructor(ports: PublishingRunsPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#waiting.size
  }

  onRunChange({ key, after, over, restored }: StateChange): void {
    const { run, publishing, lease } = after.context as RunContext
    if (over || publishing === null || run.status !== 'queued' || lease !== null) {
      this.#waiting.delete(key)
      return
    }
    this.#waiting.set(key, run)
    // Runs are restored before their workers.
    if (!restored) this.#check(run)
  }

  /** Everything is restored. */
  start(): void {
    for (const run of [...this.#waiting.values()]) this.#check(run)
  }

  /** The worker is enrolled no more. */
  onWorkerRemoved(workerId: string): void {
    for (const run of [...this.#waiting.values()])
      if (run.sandbox.workerId === workerId) this.#loseSandbox(run)
  }

  onConfigChange(): void {
    for (const runId of [...this.#waiting.keys()]) this.#send(runId, { type: 'publish now' })
  }

  #check(run: Run): void {
    if (this.#ports.workers.get(run.sandbox.workerId ?? '') === undefined) this.#loseSandbox(run)
  }

  #loseSandbox({ id, sandbox: { workerName, workerId = '' } }: Run): void {
    const reason = `worker ${workerName ?? workerId} was revoked before its work could be published`
    this.#send(id, { type: 'sandbox lost', at: this.#ports.instant(), reason })
  }

  #send(runId: string, event: RunMachineEvent): void {
    this.#ports.system.send(RUN, runId, event)
  }
}

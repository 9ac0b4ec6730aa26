/**
 * The follow-up observer keeps the reader of pull requests in step with the follow-ups in the queue, and records which
 * remarks a finished follow-up has answered.
 */
import { sandboxHolder } from '../../core/run/follow-up.ts'
import type { Run } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { AnsweredRemarks } from './answered-remarks.ts'
import type { FollowUpReader } from './follow-up-reader.ts'
import type { RunContext } from './run.machine.ts'
import type { RunEventLog } from './run-event-log.ts'

export interface FollowUpObserverPorts {
  readonly trustedClock: Pick<TrustedClock, 'now'>
  /** The wall clock, as records write it. */
  readonly instant: () => string
  readonly workers: Pick<WorkerRegistry, 'get'>
  readonly runEventLog: RunEventLog
  readonly followUpReader: FollowUpReader
  readonly answeredRemarks: AnsweredRemarks
}

export class FollowUpObserver {
  readonly #ports: FollowUpObserverPorts

  constructor(ports: FollowUpObserverPorts) {
    this.#ports = ports
  }

  onRunChange({ key, before, after, over, restored }: StateChange): void {
    const { followUpReader } = this.#ports
    const context = after.context as RunContext
    const contextBefore = before?.context as RunContext | undefined
    if (over) followUpReader.forget(key)
    if (context.job !== 'follow-up') return
    if (over) {
      this.#recordEnd(context)
      return
    }
    const waits = isWaiting(context)
    this.#updateReader(context.run, waits)
    if (waits && !restored && (contextBefore === undefined || !isWaiting(contextBefore)))
      this.#logAbsentHolder(context.run)
  }

  /** The reader keeps what it has read until a worker has accepted: a worker that is granted the run may refuse it. */
  #updateReader(run: Run, waits: boolean): void {
    const { followUpReader } = this.#ports
    if (waits) followUpReader.startWaiting(run)
    else if (run.status === 'queued') followUpReader.stopWaiting(run.id)
    else followUpReader.forget(run.id)
  }

  /** Waiting may take as long as the sandbox is retained, so the log names the way out. */
  #logAbsentHolder(run: Run): void {
    const { trustedClock, workers, instant, runEventLog } = this.#ports
    const holder = sandboxHolder(run, trustedClock.now())
    const worker = holder === undefined ? undefined : workers.get(holder)
    if (worker === undefined || worker.online) return
    const waits = `worker ${printable(worker.name)} holds the sandbox and is not connected: it is waited for until ${run.sandbox.retainedUntil}`
    const cure = 'to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again'
    runEventLog.appendText(run.id, instant(), `${waits}; ${cure}`)
  }

  #recordEnd({ run, followUp }: RunContext): void {
    const isDone = run.status === 'completed' && run.error === undefined
    this.#ports.answeredRemarks.recordEnd(run.id, followUp?.id ?? run.id, isDone)
  }
}

const isWaiting = ({ run, lease }: RunContext): boolean => run.status === 'queued' && lease === null

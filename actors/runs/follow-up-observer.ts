/**
 * The follow-up observer keeps the reader of pull requests in step with the follow-ups in the queue, and records which
 * remarks a finished follow-up has answered.
 */
import { sandboxHolder } from '../../core/run/follow-up.ts'
import type { Run } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { HostContext } from '../host-context.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'
import type { JobModules, JobParts } from './job-preparation.ts'
import { isWaiting, type RunContext } from './run.machine.ts'

export class FollowUpObserver {
  readonly #context: HostContext
  readonly #modules: JobModules
  readonly #parts: JobParts

  constructor(context: HostContext, modules: JobModules, parts: JobParts) {
    this.#context = context
    this.#modules = modules
    this.#parts = parts
  }

  onRunChange({ key, before, after, over, restored }: StateChange<RunContext>): void {
    const { followUpReader } = this.#parts
    const context = after.context
    const contextBefore = before?.context
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
    const { followUpReader } = this.#parts
    if (waits) followUpReader.startWaiting(run)
    else if (run.status === 'queued') followUpReader.stopWaiting(run.id)
    else followUpReader.forget(run.id)
  }

  /** Waiting may take as long as the sandbox is retained, so the log names the way out. */
  #logAbsentHolder(run: Run): void {
    const { trustedClock, workers, runRecords } = this.#modules
    const holder = sandboxHolder(run, trustedClock.now())
    const worker = holder === undefined ? undefined : workers.registry.get(holder)
    if (worker === undefined || worker.online) return
    const waits = `worker ${printable(worker.name)} holds the sandbox and is not connected: it is waited for until ${run.sandbox.retainedUntil}`
    const cure = 'to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again'
    runRecords.eventLog.appendText(run.id, this.#context.instant(), `${waits}; ${cure}`)
  }

  #recordEnd({ run, followUp }: RunContext): void {
    const isDone = run.status === 'completed' && run.error === undefined
    this.#parts.answeredRemarks.recordEnd(run.id, followUp?.id ?? run.id, isDone)
  }
}

/** The value on disk. */
interface StoredRemarks {
  /** Address of the pull request. */
  readonly url: string
  /** Keys of answered remarks. Absent: no follow-up is known to have completed. */
  readonly answered?: readonly string[]
  /** Keys of the remarks that become `answered` when the current follow-up completes. */
  readonly offered?: { readonly followUp: string; readonly keys: readonly string[] }
}

export interface RemarkOffer {
  readonly followUp: string
  readonly url: string
  /** Keys of the remarks that this attempt is given. */
  readonly keys: readonly string[]
  /** Keys of the remarks that earlier follow-ups answered. */
  readonly answered: readonly string[]
  /** Whether the follow-up was started before. */
  readonly isAgain: boolean
}

/**
 * AnsweredRemarks stores which remarks on its pull request the follow-ups of a run have answered, so that no follow-up
 * receives a remark again and none is left out.
 *
 * A remark counts as answered when a follow-up that received it completed. An interrupted follow-up may have done its
 * work in any of its attempts, so only remarks that every attempt received count. In doubt a remark is sent once more.
 */
export class AnsweredRemarks implements CommitParticipant {
  readonly #stored: StoredCollection<StoredRemarks>

  constructor(ports: StoredCollectionPorts) {
    this.#stored = new StoredCollection('told', ports)
  }

  /** Returns the keys of answered remarks; undefined when they are not known. */
  answered(runId: string, url: string): ReadonlySet<string> | undefined {
    const stored = this.#stored.get(runId)
    return stored?.url === url && stored.answered !== undefined ? new Set(stored.answered) : undefined
  }

  /** Records the remarks that a worker receives with a follow-up. */
  recordOffer(runId: string, { followUp, url, keys, answered, isAgain }: RemarkOffer): void {
    const stored = this.#stored.get(runId)
    const earlierKeys = stored?.offered?.followUp === followUp ? stored.offered.keys : isAgain ? [] : keys
    const alwaysOffered = new Set(earlierKeys)
    const offer = { followUp, keys: [...answered, ...keys.filter((key) => alwaysOffered.has(key))] }
    this.#stored.set(runId, { ...(stored?.url === url ? stored : { url }), offered: offer })
  }

  recordEnd(runId: string, followUp: string, isDone: boolean): void {
    const { offered, ...stored } = { ...this.#stored.get(runId) }
    if (stored.url === undefined || offered?.followUp !== followUp) return
    const { url } = stored
    this.#stored.set(runId, isDone ? { url, answered: offered.keys } : { ...stored, url })
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }
}

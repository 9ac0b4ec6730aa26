/**
 * DurableTasks carries out small requests to a provider, such as a link in a tracker or an upload to a bucket, and
 * retries them with backoff.
 *
 * A task is on disk with the commit that caused it and stays there until it succeeds or is given up, so neither a
 * restart nor an unreachable provider loses one. A task that succeeded right before a crash runs again: the `attempt`
 * port must make that harmless.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { KeyValues, Write } from '../../core/ports/store.ts'
import { type RefusalKind, type Result, SERVICE_FAILED } from '../../core/result.ts'
import type { CommitContribution, CommitParticipant } from './commit-loop.ts'

export interface DurableTaskPorts<T extends object> {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly keyValues: KeyValues
  readonly requestCommit: () => void
  /** The prefix of the tasks' keys in the `errand` collection. Ends with `/`; no other prefix begins with it. */
  readonly prefix: string
  /** Tries a task once. A refusal in `FINAL_REFUSALS` gives the task up; every other failure is retried. */
  readonly attempt: (key: string, task: T) => Promise<Result<void>>
  readonly attemptsMax: number
  /** Refusals of these kinds do not count as attempts: the provider has not seen the request. */
  readonly unreachableKinds?: ReadonlySet<RefusalKind>
  readonly onGivenUp: (key: string, task: T, reason: string) => void
}

const RETRY_MS_FIRST = 2_000
const RETRY_MS_MAX = 10 * 60_000
/** How many tasks run at once, so that the tasks of a day do not go out in one burst after an outage. */
const CONCURRENT_MAX = 2
const FINAL_REFUSALS = new Set<RefusalKind>(['invalid', 'forbidden', 'unknown', 'gone', 'conflict'])

interface TaskAttempt<T> {
  readonly key: string
  readonly task: T
  /** How often the task was run, attempts that did not count included. Determines the backoff. */
  readonly rounds: number
  readonly attempts: number
}

interface TaskFailure {
  readonly is: 'unreachable' | 'temporary' | 'final'
  readonly reason: string
}

export class DurableTasks<T extends object> implements CommitParticipant {
  readonly #ports: DurableTaskPorts<T>
  readonly #pending = new Map<string, T>()
  readonly #cancelRetries = new Set<Cancel>()
  #ready: TaskAttempt<T>[] = []
  #running = 0
  #toWrite = new Map<string, T | null>()
  /** Written by the commit in flight. */
  #inCommit: ReadonlyMap<string, T | null> = new Map()
  #isStopped = false

  constructor(ports: DurableTaskPorts<T>) {
    this.#ports = ports
  }

  /** Loads and starts the tasks that an earlier process left. */
  start(): void {
    const { keyValues, prefix } = this.#ports
    const until = `${prefix.slice(0, -1)}0`
    for (const [key, value] of keyValues.all('errand', { after: prefix, until })) {
      const taskKey = key.slice(prefix.length)
      // The cast holds because only this class writes under the prefix. A task added meanwhile replaces the stored one.
      if (!this.#pending.has(taskKey)) this.#accept(taskKey, value as T)
    }
  }

  stop(): void {
    this.#isStopped = true
    for (const cancel of this.#cancelRetries) cancel()
    this.#cancelRetries.clear()
  }

  get size(): number {
    return this.#pending.size
  }

  /** Adds a task, which starts once it is on disk. A task of the same key replaces the earlier one. */
  add(key: string, task: T): void {
    this.#toWrite.set(key, task)
    this.#ports.requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    this.#inCommit = written
    const { prefix } = this.#ports
    return {
      writes: [...written].map(
        ([key, value]): Write => ({
          table: 'key-value',
          collection: 'errand',
          key: `${prefix}${key}`,
          value,
        }),
      ),
      onCommitted: () => {
        this.#inCommit = new Map()
        for (const [key, task] of written) if (task !== null) this.#accept(key, task)
      },
    }
  }

  #accept(key: string, task: T): void {
    this.#pending.set(key, task)
    this.#enqueue({ key, task, rounds: 0, attempts: 0 })
  }

  #enqueue(attempt: TaskAttempt<T>): void {
    this.#ready.push(attempt)
    this.#startNext()
  }

  #startNext(): void {
    while (!this.#isStopped && this.#running < CONCURRENT_MAX) {
      const next = this.#ready.shift()
      if (next === undefined) return
      if (this.#pending.get(next.key) !== next.task) continue
      this.#running += 1
      void this.#runAttempt(next)
    }
  }

  async #runAttempt({ key, task, rounds, attempts }: TaskAttempt<T>): Promise<void> {
    const failure = await this.#attempt(key, task)
    this.#running -= 1
    if (this.#isStopped) return
    // A newer task of the same key may have replaced this one meanwhile.
    const isCurrent = this.#pending.get(key) === task
    const countedAttempts = failure?.is === 'unreachable' ? attempts : attempts + 1
    const isFinished =
      failure === undefined || failure.is === 'final' || countedAttempts >= this.#ports.attemptsMax
    if (isCurrent && isFinished) this.#finish(key, task, failure?.reason)
    else if (isCurrent) this.#scheduleRetry({ key, task, rounds: rounds + 1, attempts: countedAttempts })
    this.#startNext()
  }

  async #attempt(key: string, task: T): Promise<TaskFailure | undefined> {
    try {
      const result = await this.#ports.attempt(key, task)
      if (result.ok) return undefined
      const { kind, message } = result.refusal
      const isUnreachable = this.#ports.unreachableKinds?.has(kind) === true
      return {
        is: FINAL_REFUSALS.has(kind) ? 'final' : isUnreachable ? 'unreachable' : 'temporary',
        reason: message,
      }
    } catch (error) {
      this.#ports.log.error({ key, err: error }, 'a durable task threw; it will be retried')
      return { is: 'temporary', reason: SERVICE_FAILED }
    }
  }

  #scheduleRetry(attempt: TaskAttempt<T>): void {
    const { clock, random } = this.#ports
    const waitMs = backoffMs(attempt.rounds, RETRY_MS_FIRST, RETRY_MS_MAX, random.fraction())
    const cancel = clock.after(waitMs, () => {
      this.#cancelRetries.delete(cancel)
      this.#enqueue(attempt)
    })
    this.#cancelRetries.add(cancel)
  }

  #finish(key: string, task: T, reason: string | undefined): void {
    this.#pending.delete(key)
    // Do not delete the record when a replacement is about to be written under the same key.
    const isReplaced = this.#toWrite.has(key) || (this.#inCommit.get(key) ?? null) !== null
    if (!isReplaced) this.#toWrite.set(key, null)
    this.#ports.requestCommit()
    if (reason !== undefined) this.#ports.onGivenUp(key, task, reason)
  }
}

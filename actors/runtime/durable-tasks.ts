/**
 * Small things that are still to be done at a neighbour's once something has happened here: a link in a tracker,
 * evidence in a bucket.
 *
 * Each is on disk with the cut that caused it, and stays there until it is done or can't ever be, so neither a restart
 * nor a neighbour that is away loses one. One that was done right before a crash is done again: whoever does it makes
 * that harmless.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Clock, KeyValues, Log, RandomSource, Write } from '../../core/ports.ts'
import type { RefusalKind, Result } from '../../core/result.ts'
import type { CommitContribution, CommitParticipant } from './commit-loop.ts'

export interface DurableTaskPorts<T extends object> {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly facts: KeyValues
  readonly requestCommit: () => void
  /** Ends with `/`; nobody else's begins with it. */
  readonly prefix: string
  /** Refused as `invalid`, `forbidden`, `unknown`, `gone` or `conflict` it is given up; all else is tried again. */
  readonly attempt: (key: string, chore: T) => Promise<Result<void>>
  readonly attemptsMax: number
  /** Refused as one of these it was no try: nobody has looked at it yet. */
  readonly unreachable?: ReadonlySet<RefusalKind>
  readonly onGivenUp: (key: string, chore: T, reason: string) => void
}

const RETRY_MS_FIRST = 2_000
const RETRY_MS_MAX = 10 * 60_000
/** Under way at once, so that a day's work after an outage does not go out in one burst. */
const CONCURRENT_MAX = 2
const FINAL = new Set<RefusalKind>(['invalid', 'forbidden', 'unknown', 'gone', 'conflict'])

interface TaskAttempt<T> {
  readonly key: string
  readonly chore: T
  /** How often its turn came. */
  readonly turns: number
  readonly tries: number
}

interface Failure {
  readonly is: 'away' | 'passing' | 'final'
  readonly says: string
}

export class DurableTasks<T extends object> implements CommitParticipant {
  readonly #ports: DurableTaskPorts<T>
  readonly #pending = new Map<string, T>()
  readonly #wakes = new Set<Cancel>()
  #ready: TaskAttempt<T>[] = []
  #underWay = 0
  #toWrite = new Map<string, T | null>()
  /** With the cut that is on its way to the disk. */
  #inCut: ReadonlyMap<string, T | null> = new Map()
  #isOver = false

  constructor(ports: DurableTaskPorts<T>) {
    this.#ports = ports
  }

  /** What an earlier life of the host left undone. */
  start(): void {
    const { facts, prefix } = this.#ports
    const until = `${prefix.slice(0, -1)}0`
    for (const [key, fact] of facts.all('errand', { after: prefix, until })) {
      const own = key.slice(prefix.length)
      // Only this class writes under the prefix, and a newer one takes the place of an older one.
      if (!this.#pending.has(own)) this.#take(own, fact as T)
    }
  }

  stop(): void {
    this.#isOver = true
    for (const wake of this.#wakes) wake()
    this.#wakes.clear()
  }

  get size(): number {
    return this.#pending.size
  }

  /** Begins once it is on disk. One of the same key takes the place of an earlier one. */
  add(key: string, chore: T): void {
    this.#toWrite.set(key, chore)
    this.#ports.requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    this.#inCut = written
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
        this.#inCut = new Map()
        for (const [key, chore] of written) if (chore !== null) this.#take(key, chore)
      },
    }
  }

  #take(key: string, chore: T): void {
    this.#pending.set(key, chore)
    this.#queue({ key, chore, turns: 0, tries: 0 })
  }

  #queue(turn: TaskAttempt<T>): void {
    this.#ready.push(turn)
    this.#goOn()
  }

  #goOn(): void {
    while (!this.#isOver && this.#underWay < CONCURRENT_MAX) {
      const next = this.#ready.shift()
      if (next === undefined) return
      if (this.#pending.get(next.key) !== next.chore) continue
      this.#underWay += 1
      void this.#try(next)
    }
  }

  async #try({ key, chore, turns, tries }: TaskAttempt<T>): Promise<void> {
    const failure = await this.#outcome(key, chore)
    this.#underWay -= 1
    if (this.#isOver) return
    // Another took its place meanwhile.
    const isCurrent = this.#pending.get(key) === chore
    const tried = failure?.is === 'away' ? tries : tries + 1
    const isOver = failure === undefined || failure.is === 'final' || tried >= this.#ports.attemptsMax
    if (isCurrent && isOver) this.#done(key, chore, failure?.says)
    else if (isCurrent) this.#later({ key, chore, turns: turns + 1, tries: tried })
    this.#goOn()
  }

  async #outcome(key: string, chore: T): Promise<Failure | undefined> {
    try {
      const tried = await this.#ports.attempt(key, chore)
      if (tried.ok) return undefined
      const { kind, message } = tried.refusal
      const isAway = this.#ports.unreachable?.has(kind) === true
      return { is: FINAL.has(kind) ? 'final' : isAway ? 'away' : 'passing', says: message }
    } catch (error) {
      this.#ports.log.error({ key, err: error }, 'a chore failed')
      return { is: 'passing', says: 'the service failed; its log says why' }
    }
  }

  #later(turn: TaskAttempt<T>): void {
    const { clock, random } = this.#ports
    const waitMs = backoffMs(turn.turns, RETRY_MS_FIRST, RETRY_MS_MAX, random.fraction())
    const wake = clock.after(waitMs, () => {
      this.#wakes.delete(wake)
      this.#queue(turn)
    })
    this.#wakes.add(wake)
  }

  #done(key: string, chore: T, reason: string | undefined): void {
    this.#pending.delete(key)
    // One that is about to take its place is not done with it.
    const isFollowed = this.#toWrite.has(key) || (this.#inCut.get(key) ?? null) !== null
    if (!isFollowed) this.#toWrite.set(key, null)
    this.#ports.requestCommit()
    if (reason !== undefined) this.#ports.onGivenUp(key, chore, reason)
  }
}

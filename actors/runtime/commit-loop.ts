/**
 * The commit loop: nothing leaves the house before its cause is on disk.
 *
 * Transitions mark lives dirty and queue effects. At the end of a turn the loop takes a cut of both, writes the
 * dirty lives in one transaction, waits for the sync, and only then runs the cut's effects, in the order in which
 * they were queued. One commit is in flight at a time; what happens meanwhile goes into the next cut, so the size of
 * a transaction follows the load by itself.
 */
import { isNativeError } from 'node:util/types'
import type { Clock, ControlDatabase, Log, Write } from '../../core/ports.ts'
import type { LiveActor } from './live-actor.ts'
import type { SnapshotCodec } from './snapshot-codec.ts'
import type { Effect } from './transition-output.ts'

/** Somebody who has something of his own to write with each cut. */
export interface CommitParticipant {
  /** Called when a cut is taken: what is to be written with it, and what to do once that is on disk. */
  contribute(): CommitContribution | undefined
}

export interface CommitContribution {
  readonly writes: readonly Write[]
  /** On disk now. Called before the cut's effects run. */
  onCommitted(): void
}

export interface CommitLoopPorts {
  readonly clock: Clock
  readonly database: Pick<ControlDatabase, 'commit'>
  readonly log: Log
  readonly runEffect: (effect: Effect) => void
  readonly participants: readonly CommitParticipant[]
  /** The last moment to tell lives something that is still part of this cut. */
  readonly beforeCommit: () => void
  readonly onCommitStarted: () => void
  /** Memory is ahead of a disk that takes no more: nothing may be acknowledged from now on. */
  readonly onFailed: (reason: string) => void
}

export class CommitLoop {
  readonly #ports: CommitLoopPorts
  #dirty = new Set<LiveActor>()
  #effects: Effect[] = []
  #scheduled = false
  /** Somebody wants a cut, be it only a guest. */
  #requested = false
  #committing = false
  #halted = false
  #idle: (() => void)[] = []

  constructor(ports: CommitLoopPorts) {
    this.#ports = ports
  }

  /** To run after the next commit. Only effects of transitions that succeeded come here. */
  addEffect(effect: Effect): void {
    this.#effects.push(effect)
  }

  markDirty(actor: LiveActor): void {
    this.#dirty.add(actor)
  }

  /** There may be something to cut; take it when this turn is over. */
  requestCommit(): void {
    this.#requested = true
    if (this.#scheduled || this.#committing || this.#halted) return
    this.#scheduled = true
    this.#ports.clock.endOfTick(() => {
      this.#scheduled = false
      void this.#runCommit()
    })
  }

  /** Resolves when nothing is dirty, queued or in flight. Never resolves while the disk is full. */
  async settled(): Promise<void> {
    while (this.#scheduled || this.#committing) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Forgets everything that is not on disk; from now on nothing is written and no effect runs. */
  halt(): void {
    this.#halted = true
    this.#dirty.clear()
    this.#effects = []
  }

  async #runCommit(): Promise<void> {
    // From here on: what is decided right before the cut is part of it, and must not ask for another one beside it.
    this.#committing = true
    this.#ports.beforeCommit()
    if (this.#halted) return this.#finishCommit()
    this.#requested = false
    const dirty = this.#dirty
    const effects = this.#effects
    this.#dirty = new Set()
    this.#effects = []
    this.#ports.onCommitStarted()
    const contributions = await this.#write(dirty)
    if (contributions !== undefined) this.#runFollowUps(contributions, effects)
    this.#finishCommit()
  }

  /** What is true now that the cut is on disk. */
  #runFollowUps(contributions: readonly CommitContribution[], effects: readonly Effect[]): void {
    for (const contribution of contributions) this.#notifyCommitted(contribution)
    for (const effect of effects) {
      if (this.#halted) return
      this.#run(effect)
    }
  }

  #finishCommit(): void {
    this.#committing = false
    // Whoever the effects answered gets to ask again first: the next cut then holds all of them.
    if (this.#requested || this.#dirty.size > 0 || this.#effects.length > 0) this.requestCommit()
    if (!this.#scheduled) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Answers what the guests wrote with it; undefined when it is not on disk, and nothing may follow from it. */
  async #write(dirty: Iterable<LiveActor>): Promise<readonly CommitContribution[] | undefined> {
    const contributions: CommitContribution[] = []
    const writtenActors: LiveActor[] = []
    const writtenStates: LiveActor['lastGood'][] = []
    try {
      const writes: Write[] = []
      for (const actor of dirty) {
        if (actor.kind.codec === undefined) continue
        addActorWrites(actor, actor.kind.codec, writes)
        writtenActors.push(actor)
        writtenStates.push(actor.lastGood)
      }
      // Behind the lives: a run that has just ended may have been changed since, and that is the last word on it.
      for (const participant of this.#ports.participants) {
        const contribution = participant.contribute()
        if (contribution === undefined) continue
        contributions.push(contribution)
        for (const write of contribution.writes) writes.push(write)
      }
      if (writes.length > 0) await this.#ports.database.commit(writes)
    } catch (error) {
      this.#ports.onFailed(isNativeError(error) ? error.message : String(error))
      return undefined
    }
    for (let index = 0; index < writtenActors.length; index++)
      (writtenActors[index] as LiveActor).durable = writtenStates[index]
    return this.#halted ? undefined : contributions
  }

  #notifyCommitted(contribution: CommitContribution): void {
    try {
      contribution.onCommitted()
    } catch (error) {
      this.#ports.log.error({ err: error }, 'what was written could not be told')
    }
  }

  #run(effect: Effect): void {
    try {
      this.#ports.runEffect(effect)
    } catch (error) {
      // One effect that fails must not keep the others from happening; its state implies it at the next start.
      this.#ports.log.error({ err: error, effect: effect.type }, 'an effect failed')
    }
  }
}

function addActorWrites(actor: LiveActor, codec: SnapshotCodec, writes: Write[]): void {
  const { kind, key, erase, lastGood, durable, deadlines } = actor
  const { split } = kind
  // Born and over within one cut: there is nothing of it on disk.
  if (!erase || durable !== undefined) {
    const record = erase ? null : codec.encode(lastGood, deadlines, split?.storedContext(lastGood.context))
    writes.push({ table: 'snapshot', kind: kind.name, key, record })
  }
  if (split !== undefined)
    for (const row of split.rowWrites(key, lastGood.context, durable?.context)) writes.push(row)
}

/**
 * CommitLoop keeps the write-ahead rule: no effect leaves the process before the state that caused it is on disk.
 *
 * Transitions mark actors dirty and add effects. At the end of the tick, or a moment later when input that has arrived
 * still waits for its turn, the loop takes all dirty actors and effects, writes the snapshots in one transaction, waits
 * for the sync, and only then runs the effects, in the order in which they were added. After a crash the restored state
 * therefore knows of every effect that ran. A commit is in flight alone; changes made meanwhile form the next one, so
 * transactions grow with the load.
 */
import { isTakenOver } from '../../core/owner.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { ControlDatabase, Write } from '../../core/ports/store.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { LiveActor } from './live-actor.ts'
import type { SnapshotCodec } from './snapshot-codec.ts'
import type { Effect, SystemObserver } from './transition-output.ts'

/** Adds its own writes to commits: values that belong to no actor. */
export interface CommitParticipant {
  /** Called when a commit begins. Returns its writes, or undefined when it has none. */
  contribute(): CommitContribution | undefined
}

export interface CommitContribution {
  readonly writes: readonly Write[]
  /** Called when the writes are on disk, before the effects of the commit run. */
  onCommitted(): void
}

/** The part of a module list that a commit calls. */
export interface CommitModules {
  /** Add their own writes to every commit. */
  readonly participants?: readonly CommitParticipant[]
  /** Runs one effect. Called only when its cause is on disk. Running an effect twice must be harmless. */
  runEffect(effect: Effect): void
  /** Called right before a commit. Events sent here still become part of it. */
  beforeCommit?(): void
  /** Whether input has arrived and waits for its turn. */
  hasInput?(): boolean
}

export interface CommitLoopOptions {
  readonly clock: Clock
  readonly database: Pick<ControlDatabase, 'commit'> & Partial<Pick<ControlDatabase, 'state'>>
  readonly log: Log
  readonly modules: () => CommitModules
  readonly observer: () => SystemObserver | undefined
  readonly onCommitStarted: () => void
  /** The process can't go on. */
  readonly onFatal: (reason: string) => void
  /** A commit failed for good. Memory is ahead of the disk, so nothing may be acknowledged any more. */
  readonly onFailed: (reason: string) => void
}

/** After so long a commit has a turn of its own, because people and timers wait for the end of a turn. */
const LONG_TURN_MS = 15
/** How long a commit waits for input that has arrived. Input may arrive without end. */
const INPUT_WAIT_MS_MAX = 100

export class CommitLoop {
  readonly #options: CommitLoopOptions
  #dirty = new Set<LiveActor>()
  #effects: Effect[] = []
  #scheduled = false
  /** An actor or a participant has asked for a commit. */
  #requested = false
  #committing = false
  #halted = false
  #idle: (() => void)[] = []

  constructor(options: CommitLoopOptions) {
    this.#options = options
  }

  /** Adds an effect that runs after the next commit. The transition that recorded it must have succeeded. */
  addEffect(effect: Effect): void {
    this.#effects.push(effect)
  }

  markDirty(actor: LiveActor): void {
    this.#dirty.add(actor)
  }

  /** Schedules a commit for the end of this tick, or for when the input that has arrived is handled. */
  requestCommit(): void {
    this.#requested = true
    if (this.#scheduled || this.#committing || this.#halted) return
    this.#scheduled = true
    const { clock } = this.#options
    const requestedAt = clock.monotonic()
    clock.endOfTick(() => this.#commitOrWait(requestedAt))
  }

  #commitOrWait(requestedAt: number): void {
    const { clock, modules } = this.#options
    const waited = clock.monotonic() - requestedAt
    // A single commit of everything costs less than one for each turn of the input.
    if (waited < INPUT_WAIT_MS_MAX && modules().hasInput?.() === true)
      clock.after(0, () => this.#commitOrWait(requestedAt))
    // A commit takes about as long as what it writes took, so it gets a turn of its own when that was long.
    else if (waited >= LONG_TURN_MS) clock.after(0, () => this.#startCommit())
    else this.#startCommit()
  }

  #startCommit(): void {
    this.#scheduled = false
    void this.#runCommit()
  }

  /** Resolves when nothing is dirty, scheduled or in flight. Never resolves while the disk is full. */
  async settled(): Promise<void> {
    while (this.#scheduled || this.#committing) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Drops everything that is not on disk. From now on the loop writes nothing and runs no effect. */
  halt(): void {
    this.#halted = true
    this.#dirty.clear()
    this.#effects = []
  }

  async #runCommit(): Promise<void> {
    // Set this first: changes made by `beforeCommit` belong to this commit and must not schedule a second one.
    this.#committing = true
    this.#runBeforeCommit()
    if (this.#halted) return this.#finishCommit()
    this.#requested = false
    const dirty = this.#dirty
    const effects = this.#effects
    this.#dirty = new Set()
    this.#effects = []
    this.#options.onCommitStarted()
    const contributions = await this.#write(dirty)
    if (contributions !== undefined) this.#runFollowUps(contributions, effects)
    this.#finishCommit()
  }

  #runBeforeCommit(): void {
    try {
      this.#options.modules().beforeCommit?.()
    } catch (error) {
      this.#options.log.error({ err: error }, BUG_MESSAGES.beforeCommitThrew)
      this.#options.onFatal(messageOf(error))
    }
  }

  /** Notifies participants and runs effects, now that the commit is on disk. */
  #runFollowUps(contributions: readonly CommitContribution[], effects: readonly Effect[]): void {
    for (const contribution of contributions) this.#notifyCommitted(contribution)
    for (const effect of effects) {
      if (this.#halted) return
      this.#run(effect)
    }
  }

  #finishCommit(): void {
    this.#committing = false
    // The next commit runs at the end of a tick: callers that the effects answered can send again first and share it.
    if (this.#requested || this.#dirty.size > 0 || this.#effects.length > 0) this.requestCommit()
    if (!this.#scheduled) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Writes one commit. Returns the participants' contributions; undefined when the write failed or the loop halted. */
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
      // Participants write after the actors: their record of a run that has just ended is the newer one.
      for (const participant of this.#options.modules().participants ?? []) {
        const contribution = participant.contribute()
        if (contribution === undefined) continue
        contributions.push(contribution)
        for (const write of contribution.writes) writes.push(write)
      }
      if (writes.length > 0) await this.#options.database.commit(writes)
      // A process that slept until its data directory was taken over acts on nothing, not even on what it has written.
      const state = this.#options.database.state?.()
      if (state !== undefined && isTakenOver(state)) throw new Error(state.reason)
    } catch (error) {
      this.#options.onFailed(messageOf(error))
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
      this.#options.log.error({ err: error }, BUG_MESSAGES.participantThrew)
    }
  }

  #run(effect: Effect): void {
    const observer = this.#options.observer()
    observer?.begin(effect)
    try {
      this.#options.modules().runEffect(effect)
    } catch (error) {
      // Run the other effects all the same. The actor's state implies the failed effect at the next start.
      this.#options.log.error({ err: error, effect: effect.type }, BUG_MESSAGES.effectFailed)
    } finally {
      observer?.end()
    }
  }
}

function addActorWrites(actor: LiveActor, codec: SnapshotCodec, writes: Write[]): void {
  const { kind, key, erase, lastGood, durable, deadlines } = actor
  const { split } = kind
  // An actor that was spawned and ended within one commit has no snapshot on disk to erase.
  if (!erase || durable !== undefined) {
    const record = erase ? null : codec.encode(lastGood, deadlines, split?.storedContext(lastGood.context))
    writes.push({ table: 'snapshot', kind: kind.name, key, record })
  }
  if (split !== undefined)
    for (const row of split.rowWrites(key, lastGood.context, durable?.context)) writes.push(row)
}

/** The log messages that always mean a bug of this program, never trouble outside. The simulation fails at each. */
export const BUG_MESSAGES = {
  effectFailed: 'an effect failed',
  spawnThrew: 'an actor threw while it was spawned',
  spawnedTwice: 'actor not spawned: one of this kind and key exists',
  deliveryFailed: 'an event could not be delivered',
  finalOutputsFailed: 'the final outputs of an actor failed',
  participantThrew: 'a commit participant threw after its writes were on disk',
  observerThrew: 'an observer of a state change threw',
  beforeCommitThrew: 'the step before a commit threw',
  inputFailed: 'input of a worker connection could not be handled',
  pushFailed: 'a push could not be delivered',
} as const

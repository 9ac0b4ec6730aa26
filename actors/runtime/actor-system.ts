/**
 * ActorSystem spawns actors, delivers their events and restores them after a restart.
 *
 * An actor never acts on the world directly: each transition yields a new state and effects. The commit loop writes the
 * state first and runs the effects only when it is on disk (write-ahead rule). A transition succeeds as a whole: when
 * it throws, its output is discarded and the supervisor decides about a restart. Messages between actors are delivered
 * within the same tick, one after the other, so a commit never sees an actor in the middle of a transition.
 */
import type { AnyMachineSnapshot, EventObject } from 'xstate'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { ActorSnapshot, ControlDatabase } from '../../core/ports/store.ts'
import type { Result } from '../../core/result.ts'
import { no, yes } from '../../core/result.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { ActorKind, ActorState, ImpliedOutput, KindName } from './actor-kind.ts'
import { BUG_MESSAGES, CommitLoop, type CommitModules } from './commit-loop.ts'
import { Counter } from './counter.ts'
import { Deadlines } from './deadlines.ts'
import type { LiveActor } from './live-actor.ts'
import { ActorFactory, ActorRegistry, Supervisor } from './live-actor.ts'
import type { SnapshotCodec } from './snapshot-codec.ts'
import type { ActorAddress, Effect, OutsideCause, SystemObserver } from './transition-output.ts'
import { Mailbox, type MailboxItem } from './transition-output.ts'

export interface ActorSystemOptions {
  readonly clock: Clock
  /** Wall milliseconds; undefined while the wall clock counts as wrong. Absent where no deadline needs it. */
  readonly trustedNow?: () => number | undefined
  readonly database: Pick<ControlDatabase, 'commit' | 'snapshots'> &
    Partial<Pick<ControlDatabase, 'state'>> & {
      readonly runs?: Pick<ControlDatabase['runs'], 'get'>
    }
  readonly log: Log
  readonly meters: Meters
  readonly kinds: readonly ActorKind[]
  /** Called anew each time, because the modules are created after the system. */
  readonly modules: () => SystemModules
  /** The process can't go on. May be called again while it is being stopped. */
  readonly onFatal: (reason: string) => void
}

/** The part of a module list that an actor system calls. */
export interface SystemModules extends CommitModules {
  /**
   * Called synchronously after every successful transition, with `over: true` for the last. The state is not on disk
   * yet.
   */
  onStateChange?(change: StateChange): void
}

export interface StateChange<C = unknown> {
  readonly kind: string
  readonly key: string
  /** undefined: the actor was spawned or restored just now. */
  readonly before: ActorState<C> | undefined
  readonly after: ActorState<C>
  readonly over: boolean
  readonly restored: boolean
}

export interface RestoreReport {
  readonly restored: number
  /** Snapshots that could not be read and stay on disk, one sentence each. */
  readonly damaged: readonly string[]
}

/** The event of a deadline: `due` is the instant that was set, `at` the instant it fired. Both in wall milliseconds. */
interface DeadlineEvent extends EventObject {
  readonly type: `deadline.${string}`
  readonly name: string
  readonly due: number
  readonly at: number
}

export class ActorSystem {
  readonly #options: ActorSystemOptions
  readonly #kinds: ReadonlyMap<string, ActorKind>
  readonly #registry = new ActorRegistry()
  readonly #factory = new ActorFactory()
  readonly #supervisor: Supervisor
  readonly #commitLoop: CommitLoop
  readonly #deadlines: Deadlines<LiveActor>
  readonly #trustedDeadlines: Deadlines<LiveActor>
  readonly #mailbox: Mailbox
  readonly #transitionCounter = new Counter('actor_transitions_total', 'kind')
  #stopped = false
  #halted = false
  /** `kind key` of snapshots on disk without an actor: unreadable, or given up. No actor may be spawned over them. */
  readonly #damagedKeys = new Set<string>()
  /** Kinds with such a snapshot: its key may be damaged as well. */
  readonly #damagedKinds = new Set<string>()
  #failedSpawn: LiveActor | undefined
  #observer: SystemObserver | undefined

  constructor(options: ActorSystemOptions) {
    this.#options = options
    this.#kinds = new Map(options.kinds.map((kind) => [kind.name, kind]))
    this.#commitLoop = new CommitLoop({
      clock: options.clock,
      database: options.database,
      log: options.log,
      modules: options.modules,
      observer: () => this.#observer,
      onCommitStarted: () => this.#transitionCounter.report(options.meters),
      onFatal: options.onFatal,
      onFailed: (reason) => this.stopAfterStoreFailure(reason),
    })
    this.#mailbox = new Mailbox(
      (item) => this.#deliver(item),
      (error) => this.#onDeliveryError(error),
    )
    this.#supervisor = new Supervisor({
      ...options,
      onRecovered: (actor, heldEvents) => this.#onRecovered(actor, heldEvents),
      onSkipped: (actor, event) => this.#clearDeadline(actor, event),
      onGivenUp: (actor, reason) => this.#onGivenUp(actor, reason),
    })
    const onDue = (actor: LiveActor, name: string, due: number) => this.#onDeadline(actor, name, due)
    this.#deadlines = new Deadlines(options.clock, onDue)
    this.#trustedDeadlines = new Deadlines(trustedClockOf(options), onDue)
  }

  /** Spawns an actor. Refused when an actor of that kind and key exists, or when the new one throws while starting. */
  spawn<I>(kind: KindName<unknown, EventObject, I>, key: string, input: NoInfer<I>): Result<ActorAddress> {
    if (this.#registry.get(kind, key) !== undefined)
      return no('conflict', `there is a ${kind} ${key} already`)
    if (this.#damagedKeys.has(`${kind} ${key}`)) return no('failed', `the stored ${kind} ${key} is damaged`)
    this.#failedSpawn = undefined
    this.#enqueue({ is: 'spawn', to: { kind, key }, input })
    return this.#failedSpawn === undefined
      ? yes({ kind, key })
      : no('failed', `the ${kind} ${key} could not be started`)
  }

  /** Sends an event. Returns whether the actor exists, not whether its machine handles the event. */
  send<E extends EventObject>(kind: KindName<unknown, E>, key: string, event: NoInfer<E>): boolean {
    const actor = this.#registry.get(kind, key)
    if (actor === undefined) return false
    this.#enqueue({ is: 'direct', actor, event })
    return true
  }

  /** Reads every snapshot and restores its actor. Refused as `gone` when a newer version wrote one of them. */
  restore(): Result<RestoreReport> {
    const damaged: string[] = []
    const restored: LiveActor[] = []
    for (const name of this.#options.database.snapshots.kinds()) {
      const kind = this.#kinds.get(name)
      for (const [key, record] of this.#options.database.snapshots.all(name)) {
        if (kind?.codec === undefined)
          return no('gone', `${name} ${key}: this version knows no actor kind ${name}`)
        const result =
          'damaged' in record
            ? { is: 'damaged' as const, reason: record.damaged }
            : this.#restoreActor(kind, kind.codec, key, record)
        if (result.is === 'newer') return no('gone', `${name} ${key}: ${result.reason}`)
        if (result.is === 'restored') restored.push(result.actor)
        else {
          damaged.push(`${name} ${key}: ${result.reason}`)
          this.#damagedKeys.add(`${name} ${key}`)
          this.#damagedKinds.add(name)
        }
      }
    }
    this.#observed({ is: 'restore', name: '' }, () => this.#announce(restored))
    return yes({ restored: restored.length, damaged })
  }

  #announce(restored: readonly LiveActor[]): void {
    for (const actor of restored) {
      this.#observer?.onCreated(actor, true)
      this.#publishChange(actor, undefined, false, true)
    }
    for (const actor of restored)
      this.#deliverOutputs(actor.kind.impliedOutputs?.(actor.key, actor.lastGood) ?? [])
  }

  #restoreActor(kind: ActorKind, codec: SnapshotCodec, key: string, record: ActorSnapshot): RestoreResult {
    try {
      const decoded = codec.decode(record)
      if (decoded.is !== 'snapshot') return decoded
      const context = this.#joinSplitParts(kind, key, decoded.snapshot.context)
      if (context === undefined) return { is: 'damaged', reason: 'the other part of it is missing' }
      const actor = this.#factory.restore(kind, key, { ...decoded.snapshot, context })
      if (actor.lastGood.status === 'error') return { is: 'damaged', reason: messageOf(actor.lastGood.error) }
      this.#registry.add(actor)
      for (const [name, at] of Object.entries(decoded.snapshot.deadlines)) this.#setDeadline(actor, name, at)
      return { is: 'restored', actor }
    } catch (error) {
      return { is: 'damaged', reason: messageOf(error) }
    }
  }

  #joinSplitParts({ split }: ActorKind, key: string, stored: unknown): unknown {
    const { runs } = this.#options.database
    return split === undefined || runs === undefined ? stored : split.joinContext(key, stored, { runs })
  }

  /** Whether a snapshot lies on disk that could not become an actor. The actor may then not be called unknown. */
  isDamaged(kind: KindName, key: string): boolean {
    return this.#damagedKeys.has(`${kind} ${key}`)
  }

  /** The keys of the snapshots of a kind for which `isDamaged` holds. */
  damagedKeysOf(kind: KindName): string[] {
    const before = `${kind} `
    return [...this.#damagedKeys].flatMap((id) => (id.startsWith(before) ? [id.slice(before.length)] : []))
  }

  /** Whether `stop` was called: no actor is known any more, and nothing reaches the disk. */
  get isStopped(): boolean {
    return this.#stopped
  }

  /** Whether any stored actor of the kind could not be read. An actor that looks unknown may be that one. */
  hasDamaged(kind: KindName): boolean {
    return this.#damagedKinds.has(kind)
  }

  /** Whether the actor exists and is not recovering from a crash, so that it handles events at once. */
  isRunning(kind: KindName, key: string): boolean {
    const actor = this.#registry.get(kind, key)
    return actor !== undefined && actor.recovery === undefined
  }

  /** Every live actor. Only for people who inspect them: nothing on a hot path may walk over all actors. */
  liveActors(): Iterable<LiveActor> {
    return this.#registry.all()
  }

  liveActor(kind: string, key: string): LiveActor | undefined {
    return this.#registry.get(kind, key)
  }

  /** Sets the one observer, or takes it away. */
  observe(observer: SystemObserver | undefined): void {
    this.#observer = observer
  }

  get isObserved(): boolean {
    return this.#observer !== undefined
  }

  /** Runs `act`. An observer sees the events that it sends as caused from outside. */
  attribute<T>(is: OutsideCause['is'], name: string, act: () => T): T {
    return this.#observer === undefined ? act() : this.#observed({ is, name }, act)
  }

  keys(kind: KindName): Iterable<string> {
    return this.#registry.keys(kind)
  }

  /** Schedules a commit for writes that belong to no actor. */
  requestCommit(): void {
    this.#commitLoop.requestCommit()
  }

  /** Runs an effect once everything that has happened so far is on disk. */
  runAfterCommit(effect: Effect): void {
    this.#observer?.onRecorded(effect)
    this.#commitLoop.addEffect(effect)
    this.#commitLoop.requestCommit()
  }

  /** The current state of an actor, on disk or not: the state after its last successful transition. */
  peek<C>(kind: KindName<C>, key: string): ActorState<C> | undefined {
    return this.#registry.get(kind, key)?.lastGood
  }

  /** The state of an actor as of the last commit. Only this state may leave the process. */
  peekDurable<C>(kind: KindName<C>, key: string): ActorState<C> | undefined {
    return this.#registry.get(kind, key)?.durable
  }

  count(): ReadonlyMap<string, number> {
    return this.#registry.count()
  }

  pendingDeadlines(): number {
    return this.#deadlines.size + this.#trustedDeadlines.size
  }

  /** Resolves when every event sent so far is committed and its effects have run. */
  settled(): Promise<void> {
    return this.#commitLoop.settled()
  }

  /**
   * Halts the system after the store failed. Memory is ahead of the disk, so no effect runs any more. Only diskless
   * actors still receive events, so that they can stop the process.
   */
  stopAfterStoreFailure(reason: string): void {
    if (this.#halted || this.#stopped) return
    this.#halted = true
    this.#commitLoop.halt()
    this.#options.onFatal(`the store is broken: ${reason}`)
  }

  /** Stops every actor at once and writes nothing more. Snapshots stay on disk for the next start. */
  stop(): void {
    this.#stopped = true
    this.#mailbox.close()
    this.#commitLoop.halt()
    this.#deadlines.stop()
    this.#trustedDeadlines.stop()
    for (const actor of [...this.#registry.all()]) {
      actor.recovery?.cancel()
      this.#factory.stop(actor)
      this.#registry.remove(actor)
    }
    this.#factory.close()
  }

  // ---- delivery ------------------------------------------------------------------------------------------------

  #enqueue(item: MailboxItem): void {
    this.#observer?.onRecorded(item)
    this.#mailbox.enqueue(item)
  }

  #observed<T>(cause: object | OutsideCause, act: () => T): T {
    const observer = this.#observer
    if (observer === undefined) return act()
    observer.begin(cause)
    try {
      return act()
    } finally {
      observer.end()
    }
  }

  #deliver(item: MailboxItem): void {
    if (this.#observer === undefined) this.#deliverNow(item)
    else this.#observed(item, () => this.#deliverNow(item))
  }

  #deliverNow(item: MailboxItem): void {
    if (item.is === 'direct') {
      this.#handle(item.actor, item.event)
      return
    }
    const { kind, key } = item.to
    const actor = this.#registry.get(kind, key)
    if (item.is === 'event') {
      if (actor !== undefined) this.#handle(actor, item.event)
      else
        this.#options.log.debug(
          { kind, key, event: item.event.type },
          'event for an actor that does not exist',
        )
    } else if (actor === undefined) {
      if (!this.#halted || this.#kinds.get(kind)?.diskless === true) this.#spawnNow(kind, key, item.input)
    } else {
      this.#options.log.error({ kind, key }, BUG_MESSAGES.spawnedTwice)
    }
  }

  #handle(actor: LiveActor, event: EventObject): void {
    if (actor.removed || (this.#halted && actor.kind.diskless !== true)) return
    if (actor.recovery !== undefined) this.#supervisor.holdEvent(actor, event)
    else this.#transition(actor, event)
  }

  #spawnNow(kindName: string, key: string, input: unknown): void {
    const kind = this.#kinds.get(kindName)
    if (kind === undefined) throw new Error(`unknown actor kind ${kindName}`)
    const actor = this.#factory.create(kind, key, input)
    if (actor.lastGood.status === 'error') {
      this.#discardOutput()
      this.#options.meters.count('actor_crashes_total', { kind: kind.name })
      this.#options.log.error({ kind: kind.name, key, err: actor.lastGood.error }, BUG_MESSAGES.spawnThrew)
      this.#failedSpawn = actor
      this.#sendFinalOutputs(actor, 'threw while it was spawned')
      if (kind.supervision.finally === 'fatal')
        this.#options.onFatal(`${kind.name} threw while it was spawned`)
      return
    }
    this.#registry.add(actor)
    this.#commitLoop.markDirty(actor)
    this.#observer?.onCreated(actor, false)
    this.#takeOutput(actor, undefined)
  }

  #transition(actor: LiveActor, event: EventObject): void {
    // An event that was queued before this one has moved or cancelled the deadline meanwhile.
    if (actor.deadlines !== undefined && isDeadline(event) && actor.deadlines.get(event.name) !== event.due)
      return
    this.#transitionCounter.add(actor.kind.name)
    actor.xstateActor.send(event)
    const after = actor.xstateActor.getSnapshot() as AnyMachineSnapshot
    if (after.status === 'error') {
      this.#discardOutput()
      this.#observer?.onCrashed(actor, event)
      this.#supervisor.onCrash(actor, event, after.error)
      return
    }
    if (actor.suspectEvent === event) actor.suspectEvent = undefined
    const before = actor.lastGood
    if (after.value !== before.value || after.context !== before.context) this.#commitLoop.markDirty(actor)
    actor.lastGood = after
    this.#observer?.onTransition(actor, event, before)
    this.#clearDeadline(actor, event)
    this.#takeOutput(actor, before)
  }

  /** Carries out what the transition recorded: effects, messages, deadlines, the end. */
  #takeOutput(actor: LiveActor, before: AnyMachineSnapshot | undefined): void {
    const { effects, messages, deadlines, ended } = this.#factory.output
    if (this.#observer !== undefined) {
      for (const effect of effects) this.#observer.onEffect(actor, effect)
      for (const change of deadlines) this.#observer.onDeadline(actor, change)
    }
    if (actor.kind.diskless) this.#runAtEndOfTick(actor.kind, [...effects])
    else for (const effect of effects) this.#commitLoop.addEffect(effect)
    for (const item of messages) this.#enqueue(item)
    for (const change of deadlines) {
      if (change.is === 'set') this.#setDeadline(actor, change.name, change.at)
      else this.#cancelDeadline(actor, change.name)
      this.#commitLoop.markDirty(actor)
    }
    this.#discardOutput()
    const over = ended || actor.lastGood.status === 'done'
    if (over) {
      this.#commitLoop.markDirty(actor)
      this.#remove(actor, true)
      // In a final state xstate stops the actor by itself.
      if (ended) this.#factory.stop(actor)
    }
    if (actor.lastGood !== before) this.#publishChange(actor, before, over, false)
    this.#commitLoop.requestCommit()
  }

  #publishChange(
    actor: LiveActor,
    before: AnyMachineSnapshot | undefined,
    over: boolean,
    restored: boolean,
  ): void {
    try {
      this.#options.modules().onStateChange?.({
        kind: actor.kind.name,
        key: actor.key,
        before,
        after: actor.lastGood,
        over,
        restored,
      })
    } catch (error) {
      // Observers would no longer agree with the actors, so the process must stop.
      this.#options.log.error({ kind: actor.kind.name, err: error }, BUG_MESSAGES.observerThrew)
      this.#options.onFatal(messageOf(error))
    }
  }

  #runAtEndOfTick(kind: ActorKind, effects: readonly Effect[]): void {
    if (effects.length === 0) return
    this.#options.clock.endOfTick(() => {
      for (const effect of effects) this.#runEffect(kind, effect)
    })
  }

  #runEffect(kind: ActorKind, effect: Effect): void {
    try {
      this.#observed(effect, () => this.#options.modules().runEffect(effect))
    } catch (error) {
      // As after a commit: one failed effect, such as a write to a closed connection, must not stop the others.
      this.#options.log.error({ err: error, effect: effect.type }, BUG_MESSAGES.effectFailed)
      if (kind.supervision.finally === 'fatal') this.#options.onFatal(messageOf(error))
    }
  }

  #discardOutput(): void {
    const { output } = this.#factory
    output.effects.length = 0
    output.messages.length = 0
    output.deadlines.length = 0
    output.ended = false
  }

  #remove(actor: LiveActor, erase: boolean): void {
    actor.removed = true
    actor.erase = erase
    actor.recovery?.cancel()
    actor.recovery = undefined
    this.#deadlines.cancelAll(actor)
    this.#trustedDeadlines.cancelAll(actor)
    this.#registry.remove(actor)
    this.#observer?.onEnded(actor)
  }

  #deliverOutputs(outputs: readonly ImpliedOutput[]): void {
    for (const output of outputs) {
      if (output.is === 'effect') {
        this.#observer?.onRecorded(output.effect)
        this.#commitLoop.addEffect(output.effect)
      } else this.#enqueue({ is: 'event', to: output.to, event: output.event })
    }
    this.#commitLoop.requestCommit()
  }

  // ---- deadlines -----------------------------------------------------------------------------------------------

  #setDeadline(actor: LiveActor, name: string, at: number): void {
    actor.deadlines = (actor.deadlines ?? new Map<string, number>()).set(name, at)
    this.#deadlinesFor(actor, name).set(actor, name, at)
  }

  #cancelDeadline(actor: LiveActor, name: string): void {
    actor.deadlines?.delete(name)
    this.#deadlinesFor(actor, name).cancel(actor, name)
  }

  #deadlinesFor({ kind }: LiveActor, name: string): Deadlines<LiveActor> {
    return kind.trustedDeadlines?.includes(name) === true ? this.#trustedDeadlines : this.#deadlines
  }

  #onDeadline(actor: LiveActor, name: string, due: number): void {
    if (this.#stopped || actor.removed) return
    const event: DeadlineEvent = { type: `deadline.${name}`, name, due, at: this.#options.clock.now() }
    if (this.#observer === undefined) this.#enqueue({ is: 'direct', actor, event })
    else this.#observed({ is: 'deadline', name }, () => this.#enqueue({ is: 'direct', actor, event }))
  }

  /**
   * Removes a deadline from the snapshot together with the transition that it caused. Until then (the actor may be
   * recovering from a crash) it stays on disk, so that a restart fires it again.
   */
  #clearDeadline(actor: LiveActor, event: EventObject): void {
    if (actor.deadlines === undefined || !isDeadline(event)) return
    if (actor.deadlines.get(event.name) !== event.due) return
    actor.deadlines.delete(event.name)
    this.#commitLoop.markDirty(actor)
    this.#commitLoop.requestCommit()
  }

  // ---- when something breaks -----------------------------------------------------------------------------------

  #onRecovered(actor: LiveActor, heldEvents: readonly EventObject[]): void {
    if (this.#stopped || actor.removed) return
    this.#factory.restart(actor)
    this.#observer?.onRestarted(actor)
    // Deliver the same event objects: the supervisor recognises a second crash on an event by identity.
    for (const event of heldEvents) this.#enqueue({ is: 'direct', actor, event })
  }

  #onGivenUp(actor: LiveActor, reason: string): void {
    const { supervision, name } = actor.kind
    this.#options.log.error({ kind: name, key: actor.key, reason }, `a ${name} was given up`)
    this.#remove(actor, supervision.finally === 'closed')
    if (actor.erase) this.#commitLoop.markDirty(actor)
    else if (actor.kind.codec !== undefined) this.#damagedKeys.add(`${name} ${actor.key}`)
    this.#publishChange(actor, actor.lastGood, true, false)
    this.#sendFinalOutputs(actor, reason)
    if (supervision.finally === 'fatal') this.#options.onFatal(`${name} ${actor.key}: ${reason}`)
  }

  /** Crashes of actors are handled elsewhere. An error here comes from the runtime or a kind's definition: fatal. */
  #onDeliveryError(error: unknown): void {
    this.#options.log.error({ err: error }, BUG_MESSAGES.deliveryFailed)
    this.#options.onFatal(messageOf(error))
  }

  #sendFinalOutputs({ kind, key, lastGood }: LiveActor, reason: string): void {
    try {
      const at = this.#options.clock.now()
      this.#deliverOutputs(kind.supervision.finalOutputs?.(key, lastGood, reason, at) ?? [])
    } catch (error) {
      this.#options.log.error({ kind: kind.name, key, err: error }, BUG_MESSAGES.finalOutputsFailed)
    }
  }
}

type RestoreResult =
  | { readonly is: 'restored'; readonly actor: LiveActor }
  | { readonly is: 'newer'; readonly reason: string }
  | { readonly is: 'damaged'; readonly reason: string }

/** While the wall clock counts as wrong, it reads as before every deadline, and is asked again with the next timer. */
const trustedClockOf = ({ clock, trustedNow }: ActorSystemOptions): Pick<Clock, 'now' | 'after'> => ({
  now: () => (trustedNow === undefined ? clock.now() : (trustedNow() ?? 0)),
  after: (ms, run) => clock.after(ms, run),
})

const isDeadline = (event: EventObject): event is DeadlineEvent => event.type.startsWith('deadline.')

/**
 * LiveActor is one actor in memory: its xstate actor, its last good state, its state on disk, and its crashes.
 * ActorFactory creates live actors, ActorRegistry holds them, and Supervisor restarts or ends those that have thrown.
 */
import {
  type AnyActor,
  type AnyActorRef,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createActor,
  type EventObject,
  fromTransition,
} from 'xstate'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { ActorKind, Supervision } from './actor-kind.ts'
import { withQuickSteps } from './quick-steps.ts'
import type { DecodedSnapshot } from './snapshot-codec.ts'
import { createTransitionOutput, type TransitionOutput } from './transition-output.ts'

export interface LiveActor {
  readonly kind: ActorKind
  readonly key: string
  xstateActor: AnyActor
  /** The state after the last transition that did not throw. A restart returns to it, a commit writes it. */
  lastGood: AnyMachineSnapshot
  /** The state as of the last commit. Only this state may leave the process. */
  durable: AnyMachineSnapshot | undefined
  /** Pending deadlines by name, in wall milliseconds; undefined for actors that never had one. */
  deadlines: Map<string, number> | undefined
  /** Whether the actor has left the registry, so that no event reaches it any more. */
  removed: boolean
  /** Whether the next commit erases the snapshot. An actor that was given up may leave the registry and keep it. */
  erase: boolean
  /** Present while the actor recovers from a crash. */
  recovery: CrashRecovery | undefined
  /** Monotonic instants of recent crashes. */
  crashes: readonly number[]
  /** The event of the last crash. The actor tries it once more; after a second crash the supervisor skips it. */
  suspectEvent: EventObject | undefined
}

export interface CrashRecovery {
  /** Events that arrived since the crash, oldest first. */
  readonly heldEvents: EventObject[]
  readonly cancel: Cancel
}

// ---- the registry ------------------------------------------------------------------------------------------------

/**
 * ActorRegistry holds the live actors by kind and key.
 *
 * xstate's own registry of children is not used: each child costs its parent time and memory, and with ten thousand
 * children every stop becomes slow.
 */
export class ActorRegistry {
  readonly #kinds = new Map<string, Map<string, LiveActor>>()

  add(actor: LiveActor): void {
    const actorsByKey = this.#kinds.get(actor.kind.name) ?? new Map<string, LiveActor>()
    actorsByKey.set(actor.key, actor)
    this.#kinds.set(actor.kind.name, actorsByKey)
  }

  get(kind: string, key: string): LiveActor | undefined {
    return this.#kinds.get(kind)?.get(key)
  }

  remove(actor: LiveActor): void {
    const actorsByKey = this.#kinds.get(actor.kind.name)
    if (actorsByKey?.get(actor.key) === actor) actorsByKey.delete(actor.key)
  }

  *all(): Iterable<LiveActor> {
    for (const actorsByKey of this.#kinds.values()) yield* actorsByKey.values()
  }

  of(kind: string): Iterable<LiveActor> {
    return this.#kinds.get(kind)?.values() ?? []
  }

  keys(kind: string): Iterable<string> {
    return this.#kinds.get(kind)?.keys() ?? []
  }

  count(): ReadonlyMap<string, number> {
    return new Map([...this.#kinds].map(([kind, actorsByKey]) => [kind, actorsByKey.size]))
  }
}

// ---- the factory -------------------------------------------------------------------------------------------------

/**
 * The xstate parent of every actor. The parent only stops children, because xstate lets nobody else do that. The actor
 * system handles actors that end or throw, right after the event, so the parent ignores xstate's messages about them.
 */
const parentLogic = fromTransition(
  (
    state: Record<string, never>,
    event: { type: 'stop'; child: AnyActorRef } | { type: `xstate.${string}` },
    scope,
  ) => {
    if ('child' in event) scope.stopChild(event.child)
    return state
  },
  {},
)

/**
 * ActorFactory creates live actors: new ones, ones restored from a snapshot on disk, and ones restarted from their last
 * good state after a crash.
 *
 * All actors of a factory write to its one transition output, which the actor system reads after each transition.
 */
export class ActorFactory {
  readonly output: TransitionOutput
  readonly #quickLogic = new Map<ActorKind, AnyStateMachine>()
  readonly #parent = createActor(parentLogic, { id: 'parent' })

  constructor() {
    this.#parent.start()
    this.output = createTransitionOutput(this.#parent.system)
  }

  /** Creates a new actor. When its machine throws while starting, `lastGood.status` is `error`. */
  create(kind: ActorKind, key: string, input: unknown): LiveActor {
    return this.#start(kind, key, { input })
  }

  restore(kind: ActorKind, key: string, { value, context }: DecodedSnapshot): LiveActor {
    // The shape of a persisted machine snapshot; xstate exports no type for building one by hand.
    const snapshot = {
      status: 'active',
      output: undefined,
      error: undefined,
      children: {},
      historyValue: {},
      value,
      context,
    }
    const actor = this.#start(kind, key, { snapshot: snapshot as never, input: undefined })
    actor.durable = actor.lastGood
    return actor
  }

  /** Replaces the xstate actor of a crashed actor by a new one, in the last good state. */
  restart(actor: LiveActor): void {
    const { kind } = actor
    const snapshot = kind.logic.getPersistedSnapshot(actor.lastGood)
    actor.xstateActor = createActor(this.#logicOf(kind), {
      id: kind.name,
      parent: this.#parent,
      snapshot,
      input: undefined,
    })
    actor.xstateActor.start()
  }

  stop(actor: LiveActor): void {
    this.#parent.send({ type: 'stop', child: actor.xstateActor })
  }

  close(): void {
    this.#parent.stop()
  }

  #logicOf(kind: ActorKind): AnyStateMachine {
    const known = this.#quickLogic.get(kind)
    if (known !== undefined) return known
    const quick = withQuickSteps(kind.logic)
    this.#quickLogic.set(kind, quick)
    return quick
  }

  #start(kind: ActorKind, key: string, from: { input: unknown; snapshot?: never }): LiveActor {
    const xstateActor = createActor(this.#logicOf(kind), { id: kind.name, parent: this.#parent, ...from })
    xstateActor.start()
    return {
      kind,
      key,
      xstateActor,
      lastGood: xstateActor.getSnapshot() as AnyMachineSnapshot,
      durable: undefined,
      deadlines: undefined,
      removed: false,
      erase: false,
      recovery: undefined,
      crashes: [],
      suspectEvent: undefined,
    }
  }
}

// ---- the supervisor ----------------------------------------------------------------------------------------------

/** How many events may arrive for an actor while it recovers. With more the supervisor gives it up. */
const HELD_EVENTS_MAX = 10_000

interface SupervisorPorts {
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  /** The pause is over: restart the actor and deliver the held events, oldest first. */
  readonly onRecovered: (actor: LiveActor, heldEvents: readonly EventObject[]) => void
  readonly onSkipped: (actor: LiveActor, event: EventObject) => void
  readonly onGivenUp: (actor: LiveActor, reason: string) => void
}

/**
 * Supervisor decides what happens to an actor that threw: a restart from its last good state after a pause, or its end.
 *
 * Events that arrive while an actor recovers are held in order, up to a limit. The event that caused the crash is tried
 * once more; after a second crash it is logged and skipped, or ends the actor, as its kind declares.
 */
export class Supervisor {
  readonly #ports: SupervisorPorts

  constructor(ports: SupervisorPorts) {
    this.#ports = ports
  }

  onCrash(actor: LiveActor, event: EventObject, error: unknown): void {
    const { clock, log, meters } = this.#ports
    const { name, supervision } = actor.kind
    const now = clock.monotonic()
    actor.crashes = [...recentCrashes(actor.crashes, now, supervision.withinMs), now]
    const crashes = actor.crashes.length
    meters.count('actor_crashes_total', { kind: name })
    log.error({ kind: name, key: actor.key, event: event.type, crashes, err: error }, `a ${name} threw`)

    const verdict = judgeCrash(supervision, crashes)
    if (verdict.is === 'give up') {
      this.#ports.onGivenUp(actor, `crashed ${crashes} times`)
      return
    }
    const triesAgain = actor.suspectEvent !== event
    if (!triesAgain && supervision.onRepeatedCrash === 'give up') {
      this.#ports.onGivenUp(actor, `crashed twice on ${event.type}`)
      return
    }
    actor.suspectEvent = triesAgain ? event : undefined
    actor.recovery = {
      heldEvents: triesAgain ? [event] : [],
      cancel: clock.after(verdict.pauseMs, () => this.#recover(actor)),
    }
    if (triesAgain) return
    log.error(
      { kind: name, key: actor.key, event: event.type },
      'an event that crashed its actor twice is skipped',
    )
    this.#ports.onSkipped(actor, event)
  }

  holdEvent(actor: LiveActor, event: EventObject): void {
    const heldEvents = actor.recovery?.heldEvents ?? []
    heldEvents.push(event)
    if (heldEvents.length > HELD_EVENTS_MAX) {
      this.#ports.onGivenUp(actor, `${heldEvents.length} events arrived while it recovered`)
    }
  }

  #recover(actor: LiveActor): void {
    const heldEvents = actor.recovery?.heldEvents ?? []
    actor.recovery = undefined
    this.#ports.onRecovered(actor, heldEvents)
  }
}

type CrashVerdict = { readonly is: 'restart'; readonly pauseMs: number } | { readonly is: 'give up' }

function recentCrashes(crashes: readonly number[], now: number, withinMs: number): readonly number[] {
  return crashes.filter((at) => now - at < withinMs)
}

/** @param count crashes within the policy's window, this one included */
function judgeCrash(policy: Supervision, count: number): CrashVerdict {
  const pauseMs = policy.restartAfterMs[Math.min(count, policy.restartAfterMs.length) - 1]
  if (pauseMs === undefined || count >= policy.crashesMax) return { is: 'give up' }
  return { is: 'restart', pauseMs }
}

/**
 * ActorFactory creates live actors: new ones, ones restored from a snapshot on disk, and ones restarted from their last
 * good state after a crash.
 *
 * All actors of a factory write to its one transition output, which the actor system reads after each transition.
 */
import type { AnyActorRef, AnyMachineSnapshot, AnyStateMachine } from 'xstate'
import { createActor, fromTransition } from 'xstate'
import type { ActorKind } from './actor-kind.ts'
import type { LiveActor } from './live-actor.ts'
import { withQuickSteps } from './quick-steps.ts'
import type { DecodedSnapshot } from './snapshot-codec.ts'
import type { TransitionOutput } from './transition-output.ts'
import { createTransitionOutput } from './transition-output.ts'

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

/**
 * Where actors are made: newborn, brought back from a record, or brought back from their last good state.
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
 * The parent of every life. It does nothing of its own: what becomes of a life that ends or throws is decided by the
 * host, right after the event that did it, and not in a second place by way of the parent's mailbox. Only a parent may
 * stop its children, so that is what it is asked to do.
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
  readonly #parent = createActor(parentLogic, { id: 'ground' })

  constructor() {
    this.#parent.start()
    this.output = createTransitionOutput(this.#parent.system)
  }

  /** Its snapshot may say `error`: it threw while being born. */
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
    const life = this.#start(kind, key, { snapshot: snapshot as never, input: undefined })
    life.durable = life.lastGood
    return life
  }

  /** A new actor for a life whose old one threw, from the last state that was good. */
  restart(life: LiveActor): void {
    const { kind } = life
    const snapshot = kind.logic.getPersistedSnapshot(life.lastGood)
    life.actor = createActor(this.#logicOf(kind), {
      id: kind.name,
      parent: this.#parent,
      snapshot,
      input: undefined,
    })
    life.actor.start()
  }

  stop(life: LiveActor): void {
    this.#parent.send({ type: 'stop', child: life.actor })
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
    const actor = createActor(this.#logicOf(kind), { id: kind.name, parent: this.#parent, ...from })
    actor.start()
    return {
      kind,
      key,
      actor,
      lastGood: actor.getSnapshot() as AnyMachineSnapshot,
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

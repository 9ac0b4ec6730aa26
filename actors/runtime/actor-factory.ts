/**
 * Where actors are made: newborn, brought back from a record, or brought back from their last good state.
 */
import type { AnyActorRef, AnyMachineSnapshot, AnyStateMachine } from 'xstate'
import { createActor, fromTransition } from 'xstate'
import type { Kind } from './actor-kind.ts'
import type { Life } from './live-actor.ts'
import { quickened } from './quick-steps.ts'
import type { Restored } from './snapshot-codec.ts'
import type { Tray } from './transition-output.ts'
import { newTray } from './transition-output.ts'

/**
 * The parent of every life. It does nothing of its own: what becomes of a life that ends or throws is decided by the
 * host, right after the event that did it, and not in a second place by way of the parent's mailbox. Only a parent may
 * stop its children, so that is what it is asked to do.
 */
const ground = fromTransition(
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

export class Nursery {
  readonly tray: Tray
  readonly #quick = new Map<Kind, AnyStateMachine>()
  readonly #ground = createActor(ground, { id: 'ground' })

  constructor() {
    this.#ground.start()
    this.tray = newTray(this.#ground.system)
  }

  /** Its snapshot may say `error`: it threw while being born. */
  born(kind: Kind, key: string, input: unknown): Life {
    return this.#living(kind, key, { input })
  }

  restored(kind: Kind, key: string, { value, context }: Restored): Life {
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
    const life = this.#living(kind, key, { snapshot: snapshot as never, input: undefined })
    life.durable = life.good
    return life
  }

  /** A new actor for a life whose old one threw, from the last state that was good. */
  renew(life: Life): void {
    const { kind } = life
    const snapshot = kind.logic.getPersistedSnapshot(life.good)
    life.actor = createActor(this.#logicOf(kind), {
      id: kind.name,
      parent: this.#ground,
      snapshot,
      input: undefined,
    })
    life.actor.start()
  }

  letGo(life: Life): void {
    this.#ground.send({ type: 'stop', child: life.actor })
  }

  close(): void {
    this.#ground.stop()
  }

  #logicOf(kind: Kind): AnyStateMachine {
    const known = this.#quick.get(kind)
    if (known !== undefined) return known
    const quick = quickened(kind.logic)
    this.#quick.set(kind, quick)
    return quick
  }

  #living(kind: Kind, key: string, from: { input: unknown; snapshot?: never }): Life {
    const actor = createActor(this.#logicOf(kind), { id: kind.name, parent: this.#ground, ...from })
    actor.start()
    return {
      kind,
      key,
      actor,
      good: actor.getSnapshot() as AnyMachineSnapshot,
      durable: undefined,
      deadlines: undefined,
      gone: false,
      erased: false,
      recovery: undefined,
      crashes: [],
      suspect: undefined,
    }
  }
}

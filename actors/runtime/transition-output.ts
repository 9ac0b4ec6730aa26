/**
 * TransitionOutput collects what the actions of one transition record: effects, messages to actors, deadlines, the end.
 *
 * Actors never act on the world themselves. When a transition succeeds, the actor system takes the output; when it
 * throws, the output is discarded with it. The output is found through the xstate system of the actor, so several actor
 * systems can exist in one process.
 */
import type { AnyActorRef, EventObject } from 'xstate'

/** A command to the world, as a value. The word before the dot in its type names the module that carries it out. */
export interface Effect {
  readonly type: string
}

/** Names one actor: its kind, and its key within the kind. */
export interface ActorAddress {
  readonly kind: string
  readonly key: string
}

export type ActorMessage =
  | { readonly is: 'event'; readonly to: ActorAddress; readonly event: EventObject }
  | { readonly is: 'spawn'; readonly to: ActorAddress; readonly input: unknown }

export type DeadlineChange =
  | { readonly is: 'set'; readonly name: string; readonly at: number }
  | { readonly is: 'cancel'; readonly name: string }

export interface TransitionOutput {
  readonly effects: Effect[]
  readonly messages: ActorMessage[]
  readonly deadlines: DeadlineChange[]
  /** The actor ends with this transition: it leaves the registry and the disk. */
  ended: boolean
}

type XstateSystem = AnyActorRef['system']

const outputs = new WeakMap<XstateSystem, TransitionOutput>()

export function createTransitionOutput(system: XstateSystem): TransitionOutput {
  const output: TransitionOutput = { effects: [], messages: [], deadlines: [], ended: false }
  outputs.set(system, output)
  return output
}

export function transitionOutputOf(system: XstateSystem): TransitionOutput {
  const output = outputs.get(system)
  if (output === undefined)
    throw new Error('this actor was not created by an actor system, so its actions have no output')
  return output
}

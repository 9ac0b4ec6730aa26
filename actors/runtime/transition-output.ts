/**
 * The tray: where a life's deeds are put down while its transition runs.
 *
 * A life never touches the world. Its actions lay values on the tray (effects to run once their cause is on disk,
 * mail for other lives, deadlines to set); when the transition succeeds the host takes them, when it throws they are
 * thrown away with it. The tray is found through the actor's system, so many hosts can live in one process.
 */
import type { AnyActorRef, EventObject } from 'xstate'

/** Something to be done to the world, as a value. Who does it is decided where the effects are joined. */
export interface Effect {
  readonly type: string
}

/** Which life: its kind, and its key within the kind. */
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
  /** The life is over with this transition: it leaves the registry and the disk. */
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
    throw new Error('this actor was not started by a host: its deeds have no tray to land on')
  return output
}

/**
 * `defineActions` creates the actions that a machine's transitions may name, each around one pure function.
 *
 * An action only adds values to the transition output: effects, messages, deadlines, or the end of the actor. Actions
 * do no I/O, read no clock and throw nothing of their own.
 */
import type { ActionArgs, EventObject, MachineContext } from 'xstate'
import type { KindName } from './actor-kind.ts'
import type { ActorAddress, ActorMessage, Effect } from './transition-output.ts'
import { transitionOutputOf } from './transition-output.ts'

interface ActionFacts<C, E> {
  readonly context: C
  readonly event: E
}

type MachineAction<C extends MachineContext, E extends EventObject, P> = (
  args: ActionArgs<C, E, E>,
  params: P,
) => void

/** The actions of one machine, typed by its context `C`, its events `E` and its effects `F`. */
export interface MachineActions<C extends MachineContext, E extends EventObject, F extends Effect> {
  /** Records effects, which run after the commit of this transition. */
  recordEffect<P = undefined>(
    make: (facts: ActionFacts<C, E>, params: P) => F | readonly F[],
  ): MachineAction<C, E, P>
  /** Sends an event to another actor, within this tick. */
  sendEvent<P = undefined>(
    make: (facts: ActionFacts<C, E>, params: P) => AddressedEvent | readonly AddressedEvent[],
  ): MachineAction<C, E, P>
  /** Spawns another actor, within this tick. */
  spawnActor<P = undefined>(
    make: (facts: ActionFacts<C, E>, params: P) => { readonly to: ActorAddress; readonly input: unknown },
  ): MachineAction<C, E, P>
  /** Sets the instant at which this actor receives `deadline.<name>`. Survives restarts; setting it again moves it. */
  setDeadline<P = undefined>(
    make: (facts: ActionFacts<C, E>, params: P) => { readonly name: string; readonly at: number },
  ): MachineAction<C, E, P>
  cancelDeadline(name: string): MachineAction<C, E, undefined>
  /** Ends this actor: with this transition it leaves the registry and the disk. */
  endActor(): MachineAction<C, E, undefined>
}

type AddressedEvent = Extract<ActorMessage, { readonly is: 'event' }>

/** An event for another actor, which must be one of its kind. */
export const eventTo = <E extends EventObject>(
  kind: KindName<unknown, E>,
  key: string,
  event: NoInfer<E>,
): AddressedEvent => ({ is: 'event', to: { kind, key }, event })

export function defineActions<
  C extends MachineContext,
  E extends EventObject,
  F extends Effect,
>(): MachineActions<C, E, F> {
  return {
    recordEffect: (make) => (args, params) => {
      const made = make(args, params)
      // `Array.isArray` does not narrow a readonly array away from F, hence the two casts.
      if (Array.isArray(made)) transitionOutputOf(args.system).effects.push(...(made as readonly F[]))
      else transitionOutputOf(args.system).effects.push(made as F)
    },
    sendEvent: (make) => (args, params) => {
      const { messages } = transitionOutputOf(args.system)
      const made = make(args, params)
      if (!Array.isArray(made)) messages.push(made as AddressedEvent)
      // The cast is needed for the same reason as in `recordEffect`.
      else messages.push(...(made as readonly AddressedEvent[]))
    },
    spawnActor: (make) => (args, params) => {
      transitionOutputOf(args.system).messages.push({ is: 'spawn', ...make(args, params) })
    },
    setDeadline: (make) => (args, params) => {
      transitionOutputOf(args.system).deadlines.push({ is: 'set', ...make(args, params) })
    },
    cancelDeadline: (name) => (args) => {
      transitionOutputOf(args.system).deadlines.push({ is: 'cancel', name })
    },
    endActor: () => (args) => {
      transitionOutputOf(args.system).ended = true
    },
  }
}

/**
 * The deeds a machine may name: every action of every durable life is one of these, around one pure function.
 *
 * Each only lays values on the tray. None throws of its own accord, does I/O, or reads a clock.
 */
import type { ActionArgs, EventObject, MachineContext } from 'xstate'
import type { Address, Effect } from './transition-output.ts'
import { trayOf } from './transition-output.ts'

interface Facts<C, E> {
  readonly context: C
  readonly event: E
}

type Deed<C extends MachineContext, E extends EventObject, P> = (args: ActionArgs<C, E, E>, params: P) => void

/** The deeds of one machine, typed by its context, its events and the effects its room knows how to do. */
export interface Deeds<C extends MachineContext, E extends EventObject, F extends Effect> {
  /** Queue effects, to run after the commit of this transition. */
  queue<P = undefined>(make: (facts: Facts<C, E>, params: P) => F | readonly F[]): Deed<C, E, P>
  /** Send an event to another life, within this tick. */
  tell<P = undefined>(make: (facts: Facts<C, E>, params: P) => Told | readonly Told[]): Deed<C, E, P>
  /** Bring another life into being, within this tick. */
  bear<P = undefined>(
    make: (facts: Facts<C, E>, params: P) => { readonly to: Address; readonly input: unknown },
  ): Deed<C, E, P>
  /** An instant at which this life is sent `deadline.<name>`. Survives restarts; setting it again moves it. */
  setDeadline<P = undefined>(
    make: (facts: Facts<C, E>, params: P) => { readonly name: string; readonly at: number },
  ): Deed<C, E, P>
  cancelDeadline(name: string): Deed<C, E, undefined>
  /** This life is over: with this transition it leaves the registry and the disk. */
  end(): Deed<C, E, undefined>
}

interface Told {
  readonly to: Address
  readonly event: EventObject
}

export function deeds<C extends MachineContext, E extends EventObject, F extends Effect>(): Deeds<C, E, F> {
  return {
    queue: (make) => (args, params) => {
      const made = make(args, params)
      // `Array.isArray` does not narrow a readonly array away from F, hence the two casts.
      if (Array.isArray(made)) trayOf(args.system).effects.push(...(made as readonly F[]))
      else trayOf(args.system).effects.push(made as F)
    },
    tell: (make) => (args, params) => {
      const { mail } = trayOf(args.system)
      const made = make(args, params)
      if (!Array.isArray(made)) mail.push({ is: 'event', ...(made as Told) })
      // As above: `Array.isArray` does not narrow a readonly array away.
      else for (const one of made as readonly Told[]) mail.push({ is: 'event', ...one })
    },
    bear: (make) => (args, params) => {
      trayOf(args.system).mail.push({ is: 'birth', ...make(args, params) })
    },
    setDeadline: (make) => (args, params) => {
      trayOf(args.system).deadlines.push({ is: 'set', ...make(args, params) })
    },
    cancelDeadline: (name) => (args) => {
      trayOf(args.system).deadlines.push({ is: 'cancel', name })
    },
    end: () => (args) => {
      trayOf(args.system).ended = true
    },
  }
}

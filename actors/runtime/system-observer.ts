/**
 * SystemObserver sees everything that happens in an actor system, while somebody inspects it.
 *
 * Without an observer nothing is computed for it. An observer must not throw and must not send events. It learns the
 * cause of each event from the order of its calls: whatever is recorded between `begin` and `end` is caused by what has
 * begun.
 */
import type { AnyMachineSnapshot, EventObject } from 'xstate'
import type { LiveActor } from './live-actor.ts'
import type { DeadlineChange, Effect } from './transition-output.ts'

/** Something from outside of the actor system that makes it act. */
export interface OutsideCause {
  readonly is: 'frame' | 'request' | 'deadline' | 'restore'
  readonly name: string
}

export interface SystemObserver {
  /** A message or an effect is recorded. Its delivery or run begins later, with the same object. */
  onRecorded(made: object): void
  /** A recorded message is delivered, a recorded effect is run, or something from outside acts. */
  begin(begun: object | OutsideCause): void
  /** Ends what began last and has not ended. */
  end(): void
  onCreated(actor: LiveActor, isRestored: boolean): void
  /** Until the next call of `end` this transition is the cause of what is recorded. */
  onTransition(actor: LiveActor, event: EventObject, before: AnyMachineSnapshot): void
  onEffect(actor: LiveActor, effect: Effect): void
  onDeadline(actor: LiveActor, change: DeadlineChange): void
  onCrashed(actor: LiveActor, event: EventObject): void
  onRestarted(actor: LiveActor): void
  onEnded(actor: LiveActor): void
}

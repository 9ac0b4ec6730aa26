/**
 * TransitionOutput collects what the actions of one transition record: effects, messages to actors, deadlines, the end.
 *
 * Actors never act on the world themselves. When a transition succeeds, the actor system takes the output; when it
 * throws, the output is discarded with it. The output is found through the xstate system of the actor, so several actor
 * systems can exist in one process. Mailbox delivers the messages, and a SystemObserver sees what happens.
 */
import type { AnyActorRef, AnyMachineSnapshot, EventObject } from 'xstate'
import type { LiveActor } from './live-actor.ts'

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

// ---- the mailbox -------------------------------------------------------------------------------------------------

/** A message to an address, as actors send it; or `direct`, an event for an actor that is known already. */
export type MailboxItem =
  | ActorMessage
  | { readonly is: 'direct'; readonly actor: LiveActor; readonly event: EventObject }

/** More messages than this within one tick mean that actors answer each other without end. */
const MESSAGES_PER_TICK_MAX = 100_000
/** A queue that grew longer than this is replaced, so that its memory is freed. */
const QUEUE_KEPT_LENGTH_MAX = 4_096

/**
 * Mailbox is the one queue of messages between actors, delivered within the tick.
 *
 * Messages are delivered one after the other, never from within another delivery: a message that a delivery causes goes
 * to the end of the queue.
 */
export class Mailbox {
  readonly #deliver: (item: MailboxItem) => void
  readonly #onError: (error: unknown) => void
  #queue: MailboxItem[] = []
  #delivering = false
  #closed = false

  /** @param onError called when a delivery threw or did not end; the rest of the queue is dropped then */
  constructor(deliver: (item: MailboxItem) => void, onError: (error: unknown) => void) {
    this.#deliver = deliver
    this.#onError = onError
  }

  /** Delivers the message before it returns. During another delivery the message waits in the queue instead. */
  enqueue(item: MailboxItem): void {
    this.#queue.push(item)
    if (!this.#delivering) this.#deliverAll()
  }

  close(): void {
    this.#closed = true
  }

  #deliverAll(): void {
    this.#delivering = true
    let failure: { readonly error: unknown } | undefined
    try {
      for (let index = 0; index < this.#queue.length && !this.#closed; index++) {
        if (index === MESSAGES_PER_TICK_MAX)
          throw new Error(
            `more than ${MESSAGES_PER_TICK_MAX} messages in one tick: actors answer each other without end`,
          )
        this.#deliver(this.#queue[index] as MailboxItem)
      }
    } catch (error) {
      failure = { error }
    }
    if (this.#queue.length > QUEUE_KEPT_LENGTH_MAX) this.#queue = []
    else this.#queue.length = 0
    this.#delivering = false
    // Report the error last, because its handler may enqueue messages.
    if (failure !== undefined) this.#onError(failure.error)
  }
}

// ---- the observer ------------------------------------------------------------------------------------------------

/** Something from outside of the actor system that makes it act. */
export interface OutsideCause {
  readonly is: 'frame' | 'request' | 'deadline' | 'restore'
  readonly name: string
}

/**
 * SystemObserver sees everything that happens in an actor system, while somebody inspects it.
 *
 * Without an observer nothing is computed for it. An observer must not throw and must not send events. It learns the
 * cause of each event from the order of its calls: whatever is recorded between `begin` and `end` is caused by what has
 * begun.
 */
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

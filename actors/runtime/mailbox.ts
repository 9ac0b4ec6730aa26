/**
 * Mailbox is the one queue of messages between actors, delivered within the tick.
 *
 * Messages are delivered one after the other, never from within another delivery: a message that a delivery causes goes
 * to the end of the queue.
 */
import type { EventObject } from 'xstate'
import type { LiveActor } from './live-actor.ts'
import type { ActorMessage } from './transition-output.ts'

/** A message to an address, as actors send it; or `direct`, an event for an actor that is known already. */
export type MailboxItem =
  | ActorMessage
  | { readonly is: 'direct'; readonly actor: LiveActor; readonly event: EventObject }

/** More messages than this within one tick mean that actors answer each other without end. */
const MESSAGES_PER_TICK_MAX = 100_000
/** A queue that grew longer than this is replaced, so that its memory is freed. */
const QUEUE_KEPT_LENGTH_MAX = 4_096

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

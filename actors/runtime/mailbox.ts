/**
 * Mail between lives: one queue, emptied within the tick, one letter after the other and never on top of each other's
 * stacks. What a letter makes others write goes to the end of the queue.
 */
import type { EventObject } from 'xstate'
import type { LiveActor } from './live-actor.ts'
import type { ActorMessage } from './transition-output.ts'

/** Mail by address, as lives write it; or handed to a life that the host holds in its hand already. */
export type MailboxItem =
  | ActorMessage
  | { readonly is: 'direct'; readonly actor: LiveActor; readonly event: EventObject }

/** More than this within one tick means that lives keep answering each other for ever. */
const MESSAGES_PER_TICK_MAX = 100_000
/** An array that grew longer than this in a flood is given back. */
const QUEUE_KEPT_LENGTH_MAX = 4_096

export class Mailbox {
  readonly #deliver: (item: MailboxItem) => void
  readonly #onError: (error: unknown) => void
  #queue: MailboxItem[] = []
  #delivering = false
  #closed = false

  /** @param onError told when delivery itself threw, or never ended; what was still in the queue is gone then */
  constructor(deliver: (item: MailboxItem) => void, onError: (error: unknown) => void) {
    this.#deliver = deliver
    this.#onError = onError
  }

  /** Delivered when this returns, unless mail is just being delivered: then it is when that is through. */
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
          throw new Error('lives keep answering each other: too much mail in one tick')
        this.#deliver(this.#queue[index] as MailboxItem)
      }
    } catch (error) {
      failure = { error }
    }
    if (this.#queue.length > QUEUE_KEPT_LENGTH_MAX) this.#queue = []
    else this.#queue.length = 0
    this.#delivering = false
    // Only now: whoever is told will want to post.
    if (failure !== undefined) this.#onError(failure.error)
  }
}

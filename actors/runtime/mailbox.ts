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
  | { readonly is: 'handed'; readonly life: LiveActor; readonly event: EventObject }

/** More than this within one tick means that lives keep answering each other for ever. */
const MESSAGES_PER_TICK_MAX = 100_000
/** An array that grew longer than this in a flood is given back. */
const QUEUE_KEPT = 4_096

export class Mailbox {
  readonly #deliver: (letter: MailboxItem) => void
  readonly #trouble: (error: unknown) => void
  #queue: MailboxItem[] = []
  #emptying = false
  #closed = false

  /** @param trouble told when delivery itself threw, or never ended; what was still in the queue is gone then */
  constructor(deliver: (letter: MailboxItem) => void, trouble: (error: unknown) => void) {
    this.#deliver = deliver
    this.#trouble = trouble
  }

  /** Delivered when this returns, unless mail is just being delivered: then it is when that is through. */
  post(letter: MailboxItem): void {
    this.#queue.push(letter)
    if (!this.#emptying) this.#empty()
  }

  close(): void {
    this.#closed = true
  }

  #empty(): void {
    this.#emptying = true
    let trouble: { readonly error: unknown } | undefined
    try {
      for (let at = 0; at < this.#queue.length && !this.#closed; at++) {
        if (at === MESSAGES_PER_TICK_MAX)
          throw new Error('lives keep answering each other: too much mail in one tick')
        this.#deliver(this.#queue[at] as MailboxItem)
      }
    } catch (error) {
      trouble = { error }
    }
    if (this.#queue.length > QUEUE_KEPT) this.#queue = []
    else this.#queue.length = 0
    this.#emptying = false
    // Only now: whoever is told will want to post.
    if (trouble !== undefined) this.#trouble(trouble.error)
  }
}

/**
 * TicketMoves moves tickets to another state in the tracker, as their runs require.
 *
 * A requested move is on disk with the commit that caused it and stays there until the tracker has answered, so neither
 * a restart nor an outage of the tracker loses it. Moving a ticket twice to the same state is harmless. Each ticket has
 * one move in flight at a time, because a tracker may carry out two concurrent moves in the wrong order. A move that
 * failed for the time being, or that a dead process sent, may still be carried out. A move to another state waits for
 * that as long as a request may take.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { RefusalKind } from '../../core/result.ts'
import { HTTP_ANSWER_MS_MAX } from '../../protocol/limits.ts'
import type { HostContext } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection } from '../runtime/stored-collection.ts'
import type { TrackerConnection } from './tracker-connection.ts'

/** Longest wait before a failed ticket move is retried. */
const TICKET_MOVE_RETRY_MS_MAX = 60_000

export interface TicketMove {
  readonly ticketId: string
  readonly state: string
  /** The state in which the ticket stays when the move fails. Absent in records of earlier versions. */
  readonly from?: string
  /** The only states from which the ticket may be moved: in any other it was put by somebody else. */
  readonly only?: readonly string[]
}

/** The intake answers these questions about a ticket that is moved, and learns how its move ended. */
export interface MovingTickets {
  /** Returns again a move whose record is damaged; undefined when too little else is known of its ticket. */
  readonly remake: (ticketId: string) => TicketMove | undefined
  /** The states from which the ticket may be moved; undefined allows any. */
  readonly allowedOrigins: (move: TicketMove) => readonly string[] | undefined
  /**
   * The tracker made the move or refused it for good, so earlier listings are outdated. Also called for a move that was
   * made although a newer one waits.
   */
  readonly onAnswered: (move: TicketMove, how: 'moved' | 'refused') => void
}

const PREFIX = 'tracker/'
const keyOf = (ticketId: string): string => `${PREFIX}${ticketId}`
const RETRY_MS_FIRST = 1_000
/** Refusals that are never retried: repeating them would use up the request quota that polling needs. */
const FINAL = new Set<RefusalKind>(['unknown', 'gone', 'invalid', 'forbidden'])

export class TicketMoves implements CommitParticipant {
  readonly #context: HostContext
  readonly #connection: TrackerConnection
  readonly #tickets: MovingTickets
  readonly #pending = new Map<string, TicketMove>()
  readonly #retryTimers = new Map<string, Cancel>()
  /** Ids of tickets whose move was sent and has not been answered. */
  readonly #inFlight = new Set<string>()
  /** By ticket: the move to send once the one in flight has been answered. */
  readonly #afterInFlight = new Map<string, TicketMove>()
  /** By ticket: the state of a move that failed for the time being, and until when the tracker may still carry it out. */
  readonly #unsettled = new Map<string, { readonly state: string; readonly until: number }>()
  readonly #stored: StoredCollection<TicketMove>

  constructor(context: HostContext, connection: TrackerConnection, tickets: MovingTickets) {
    this.#context = context
    this.#connection = connection
    this.#tickets = tickets
    const { keyValues } = context.store.database
    this.#stored = new StoredCollection(
      'errand',
      { ...context, keyValues },
      {
        onCommitted: (written) => {
          for (const move of written.values()) if (move !== null) void this.#attempt(move, 0)
        },
      },
    )
  }

  /** Continues the moves that a previous process left unfinished, before anything requests another. */
  restore(): void {
    const { keyValues } = this.#context.store.database
    for (const key of keyValues.keys('errand', { after: PREFIX, until: 'tracker0' })) {
      const move = this.#stored.get(key) ?? this.#tickets.remake(key.slice(PREFIX.length))
      if (move === undefined) continue
      this.#pending.set(move.ticketId, move)
      this.#awaitEarlierProcess(move.ticketId)
      void this.#attempt(move, 0)
    }
  }

  /** Counts the move that an earlier process may have sent as in flight, for as long as a request may take. */
  #awaitEarlierProcess(ticketId: string): void {
    this.#inFlight.add(ticketId)
    this.#retryTimers.set(
      ticketId,
      this.#context.clock.after(HTTP_ANSWER_MS_MAX, () => this.#sendNext(ticketId)),
    )
  }

  stop(): void {
    for (const cancelRetry of this.#retryTimers.values()) cancelRetry()
    this.#retryTimers.clear()
    this.#pending.clear()
  }

  isMoving(ticketId: string): boolean {
    return this.#pending.has(ticketId)
  }

  /** Requests a move. A newer one replaces an earlier one that has not been made. */
  request(ticketId: string, state: string, from: string, only?: readonly string[]): void {
    const move: TicketMove = {
      ticketId,
      state,
      from: this.#pending.get(ticketId)?.from ?? from,
      ...(only === undefined ? {} : { only }),
    }
    // While a move is in flight, the timer waits for its end.
    if (!this.#inFlight.has(ticketId)) {
      this.#retryTimers.get(ticketId)?.()
      this.#retryTimers.delete(ticketId)
    }
    this.#pending.set(ticketId, move)
    this.#stored.set(keyOf(ticketId), move)
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  async #attempt(move: TicketMove, tries: number): Promise<void> {
    const { ticketId } = move
    if (this.#pending.get(ticketId) !== move) return
    if (this.#inFlight.has(ticketId)) {
      this.#afterInFlight.set(ticketId, move)
      return
    }
    this.#retryTimers.delete(ticketId)
    const wait = this.#settlesIn(move)
    if (wait > 0) {
      this.#sendLater(move, wait, tries)
      return
    }
    this.#inFlight.add(ticketId)
    const outcome = await this.#moveTicket(move)
    if (outcome.is === 'temporary') this.#noteUnsettled(move)
    if (this.#sendNext(ticketId) || this.#pending.get(ticketId) !== move) {
      if (outcome.is === 'moved' && this.#pending.has(ticketId)) this.#tickets.onAnswered(move, 'moved')
    } else if (outcome.is === 'temporary') this.#retryLater(move, tries, outcome.problem)
    else this.#finish(move, outcome.is)
  }

  #noteUnsettled({ ticketId, state }: TicketMove): void {
    const now = this.#context.clock.monotonic()
    for (const [id, { until }] of this.#unsettled) if (until <= now) this.#unsettled.delete(id)
    this.#unsettled.set(ticketId, { state, until: now + HTTP_ANSWER_MS_MAX })
  }

  /** Returns for how many milliseconds an earlier move of the ticket may still overtake this one. */
  #settlesIn({ ticketId, state }: TicketMove): number {
    const earlier = this.#unsettled.get(ticketId)
    if (earlier === undefined || earlier.state === state) return 0
    return earlier.until - this.#context.clock.monotonic()
  }

  /** The move in flight is over. Returns whether another one waited for that. */
  #sendNext(ticketId: string): boolean {
    this.#inFlight.delete(ticketId)
    const next = this.#afterInFlight.get(ticketId)
    this.#afterInFlight.delete(ticketId)
    if (next !== undefined) void this.#attempt(next, 0)
    return next !== undefined
  }

  #finish(move: TicketMove, how: 'moved' | 'refused'): void {
    this.#pending.delete(move.ticketId)
    this.#stored.set(keyOf(move.ticketId), null)
    this.#tickets.onAnswered(move, how)
  }

  #retryLater(move: TicketMove, tries: number, problem: string): void {
    const { random, log } = this.#context
    if (tries === 0) log.warn({ ...move, problem }, 'moving a ticket in the tracker failed and is retried')
    const wait = backoffMs(tries + 1, RETRY_MS_FIRST, TICKET_MOVE_RETRY_MS_MAX, random.fraction())
    this.#sendLater(move, wait, tries + 1)
  }

  #sendLater(move: TicketMove, wait: number, tries: number): void {
    this.#retryTimers.set(
      move.ticketId,
      this.#context.clock.after(wait, () => void this.#attempt(move, tries)),
    )
  }

  /** Sends one move. A refusal that retries cannot mend is logged and final. */
  async #moveTicket(move: TicketMove): Promise<MoveOutcome> {
    const { ticketId, state } = move
    const from = this.#tickets.allowedOrigins(move)
    const moved = await this.#connection.ask((tracker) => tracker.moveTicket(ticketId, state, from))
    if (moved.ok) return { is: 'moved' }
    const { kind, message } = moved.refusal
    if (!FINAL.has(kind)) return { is: 'temporary', problem: message }
    this.#context.log.warn({ ticketId, state, reason: message }, 'the tracker refused to move a ticket')
    return { is: 'refused' }
  }
}

type MoveOutcome =
  | { readonly is: 'moved' }
  | { readonly is: 'refused' }
  /** A temporary failure; the move is retried. */
  | { readonly is: 'temporary'; readonly problem: string }

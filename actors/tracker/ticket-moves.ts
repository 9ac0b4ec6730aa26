/**
 * Tickets that the host itself moves to another state: when work on them starts, and when it is up for review.
 *
 * What is to be moved is on disk with the cut that caused it, and stays there until the tracker has answered, so a
 * restart or a tracker that is away loses none. Moving a ticket twice to one state is harmless. A ticket has one move
 * under way at a time: asked for two at once, a tracker may do the first one last.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Clock, KeyValues, Log, RandomSource, Write } from '../../core/ports.ts'
import type { RefusalKind } from '../../core/result.ts'
import { TICKET_MOVE_RETRY_MS_MAX } from '../../protocol/limits.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { TrackerConnection } from './tracker-connection.ts'

export interface TicketMove {
  readonly ticketId: string
  readonly state: string
  /** In which state it stays when it can't be moved. Absent in what earlier versions wrote. */
  readonly from?: string
}

export interface TicketMovesPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly keyValues: KeyValues
  readonly ask: TrackerConnection['ask']
  /** The only states out of which it may be taken; undefined: any. */
  readonly allowedOrigins: (move: TicketMove) => readonly string[] | undefined
  readonly requestCommit: () => void
  /** A move was made, or refused for good: what was looked at before is old. */
  readonly onAnswered: (move: TicketMove, how: 'moved' | 'refused') => void
}

const PREFIX = 'tracker/'
const RETRY_MS_FIRST = 1_000
/** Asking again and again would use up the quota of those who look. */
const FINAL = new Set<RefusalKind>(['unknown', 'gone', 'invalid', 'forbidden'])

export class TicketMoves implements CommitParticipant {
  readonly #ports: TicketMovesPorts
  readonly #pending = new Map<string, TicketMove>()
  readonly #retryTimers = new Map<string, Cancel>()
  /** Tickets of which the tracker has been asked and has not answered. */
  readonly #inFlight = new Set<string>()
  /** What to ask for once it has. */
  readonly #afterInFlight = new Map<string, TicketMove>()
  #toWrite = new Map<string, TicketMove | null>()

  constructor(ports: TicketMovesPorts) {
    this.#ports = ports
  }

  /** What an earlier life of the host left undone. */
  start(): void {
    for (const [, fact] of this.#ports.keyValues.all('errand', { after: PREFIX, until: 'tracker0' })) {
      // Only this class writes under the prefix.
      const move = fact as TicketMove
      // A run has ended since the doors were opened: its own move takes the place of the old one.
      if (this.#pending.has(move.ticketId)) continue
      this.#pending.set(move.ticketId, move)
      void this.#attempt(move, 0)
    }
  }

  stop(): void {
    for (const cancelRetry of this.#retryTimers.values()) cancelRetry()
    this.#retryTimers.clear()
    this.#pending.clear()
  }

  isMoving(ticketId: string): boolean {
    return this.#pending.has(ticketId)
  }

  /** A later state takes the place of an earlier one that has not been reached. */
  request(ticketId: string, state: string, from: string): void {
    const move = { ticketId, state, from: this.#pending.get(ticketId)?.from ?? from }
    this.#retryTimers.get(ticketId)?.()
    this.#retryTimers.delete(ticketId)
    this.#pending.set(ticketId, move)
    this.#toWrite.set(ticketId, move)
    this.#ports.requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    const writes = [...written].map(
      ([id, value]): Write => ({ table: 'key-value', collection: 'errand', key: `${PREFIX}${id}`, value }),
    )
    return {
      writes,
      onCommitted: () => {
        for (const move of written.values()) if (move !== null) void this.#attempt(move, 0)
      },
    }
  }

  async #attempt(move: TicketMove, tries: number): Promise<void> {
    const { ticketId } = move
    this.#retryTimers.delete(ticketId)
    if (this.#pending.get(ticketId) !== move) return
    if (this.#inFlight.has(ticketId)) {
      this.#afterInFlight.set(ticketId, move)
      return
    }
    this.#inFlight.add(ticketId)
    const outcome = await this.#moveTicket(move)
    this.#inFlight.delete(ticketId)
    const next = this.#afterInFlight.get(ticketId)
    this.#afterInFlight.delete(ticketId)
    if (next !== undefined) void this.#attempt(next, 0)
    else if (this.#pending.get(ticketId) !== move) return
    else if (outcome.is === 'passing') this.#retryLater(move, tries, outcome.problem)
    else this.#finish(move, outcome.is)
  }

  #finish(move: TicketMove, how: 'moved' | 'refused'): void {
    this.#pending.delete(move.ticketId)
    this.#toWrite.set(move.ticketId, null)
    this.#ports.requestCommit()
    this.#ports.onAnswered(move, how)
  }

  #retryLater(move: TicketMove, tries: number, problem: string): void {
    const { clock, random, log } = this.#ports
    if (tries === 0) log.warn({ ...move, problem }, 'a ticket could not be moved; it is tried again')
    const wait = backoffMs(tries + 1, RETRY_MS_FIRST, TICKET_MOVE_RETRY_MS_MAX, random.fraction())
    this.#retryTimers.set(
      move.ticketId,
      clock.after(wait, () => void this.#attempt(move, tries + 1)),
    )
  }

  /** What can't ever work is logged, and done with. */
  async #moveTicket(move: TicketMove): Promise<MoveOutcome> {
    const { ticketId, state } = move
    const from = this.#ports.allowedOrigins(move)
    const moved = await this.#ports.ask((tracker) => tracker.moveTicket(ticketId, state, from))
    if (moved.ok) return { is: 'moved' }
    const { kind, message } = moved.refusal
    if (!FINAL.has(kind)) return { is: 'passing', problem: message }
    this.#ports.log.warn({ ticketId, state, reason: message }, 'a ticket was not moved')
    return { is: 'refused' }
  }
}

type MoveOutcome =
  | { readonly is: 'moved' }
  | { readonly is: 'refused' }
  /** Tried again. */
  | { readonly is: 'passing'; readonly problem: string }

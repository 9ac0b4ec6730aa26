/**
 * Tickets that the host itself moves to another state: when work on them starts, and when it is up for review.
 *
 * What is to be moved is on disk with the cut that caused it, and stays there until the tracker has answered, so a
 * restart or a tracker that is away loses none. Moving a ticket twice to one state is harmless.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Chance, Clock, Facts, Log, Tracker, Write } from '../../core/ports.ts'
import { TICKET_MOVE_RETRY_MS_MAX } from '../../protocol/limits.ts'
import type { CutGuest, CutShare } from '../kit/commit.ts'

interface Move {
  readonly ticketId: string
  readonly state: string
}

export interface MovesPorts {
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly facts: Facts
  readonly tracker: () => Tracker | undefined
  readonly stir: () => void
  /** A move was answered: what was looked at before is old. */
  readonly answered: (ticketId: string) => void
}

const PREFIX = 'tracker/'
const RETRY_MS_FIRST = 1_000

export class Moves implements CutGuest {
  readonly #ports: MovesPorts
  readonly #pending = new Map<string, Move>()
  readonly #waking = new Map<string, Cancel>()
  #toWrite = new Map<string, Move | null>()

  constructor(ports: MovesPorts) {
    this.#ports = ports
  }

  /** What an earlier life of the host left undone. */
  start(): void {
    for (const [, fact] of this.#ports.facts.all('errand', { after: PREFIX, until: 'tracker0' })) {
      // Only this class writes under the prefix.
      const move = fact as Move
      this.#pending.set(move.ticketId, move)
      void this.#try(move, 0)
    }
  }

  stop(): void {
    for (const wake of this.#waking.values()) wake()
    this.#waking.clear()
  }

  isUnderWay(ticketId: string): boolean {
    return this.#pending.has(ticketId)
  }

  /** A later state takes the place of an earlier one that has not been reached. */
  move(ticketId: string, state: string): void {
    const move = { ticketId, state }
    this.#pending.set(ticketId, move)
    this.#toWrite.set(ticketId, move)
    this.#ports.stir()
  }

  join(): CutShare | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    const writes = [...written].map(
      ([id, value]): Write => ({ table: 'fact', shelf: 'errand', key: `${PREFIX}${id}`, value }),
    )
    return {
      writes,
      landed: () => {
        for (const move of written.values()) if (move !== null) void this.#try(move, 0)
      },
    }
  }

  async #try(move: Move, tries: number): Promise<void> {
    this.#waking.delete(move.ticketId)
    if (this.#pending.get(move.ticketId) !== move) return
    const problem = await this.#moved(move)
    if (this.#pending.get(move.ticketId) !== move) return
    if (problem === undefined) {
      this.#pending.delete(move.ticketId)
      this.#toWrite.set(move.ticketId, null)
      this.#ports.stir()
      this.#ports.answered(move.ticketId)
      return
    }
    const { clock, chance, log } = this.#ports
    if (tries === 0) log.warn({ ...move, problem }, 'a ticket could not be moved; it is tried again')
    const wait = backoffMs(tries + 1, RETRY_MS_FIRST, TICKET_MOVE_RETRY_MS_MAX, chance.fraction())
    this.#waking.set(
      move.ticketId,
      clock.after(wait, () => void this.#try(move, tries + 1)),
    )
  }

  /** Answers what to try again for. What can't ever work is logged, and done with. */
  async #moved({ ticketId, state }: Move): Promise<string | undefined> {
    try {
      const moved = await this.#ports.tracker()?.moveTo(ticketId, state)
      if (moved === undefined) return 'no tracker is configured'
      if (moved.ok) return undefined
      const { kind, message } = moved.refusal
      if (kind !== 'unknown' && kind !== 'invalid') return message
      this.#ports.log.warn({ ticketId, state, reason: message }, 'a ticket was not moved')
      return undefined
    } catch (error) {
      this.#ports.log.error({ ticketId, err: error }, 'a ticket could not be moved')
      return 'the tracker failed'
    }
  }
}

/**
 * TicketObservations stores what the host has observed of each ticket (`core/tickets/run-trigger.ts`).
 *
 * A changed observation is in memory at once and on disk with the next commit.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import type { TicketObservation } from '../../core/tickets/run-trigger.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export class TicketObservations implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  /** Changed observations that are not on disk yet. */
  readonly #changed = new Map<string, TicketObservation>()
  #toWrite = new Map<string, TicketObservation>()

  constructor(keyValues: KeyValues, requestCommit: () => void) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
  }

  get(ticketId: string): TicketObservation | undefined {
    // Only this class writes to the collection, so the stored value has this type.
    return (
      this.#changed.get(ticketId) ??
      (this.#keyValues.get('ticket', ticketId) as TicketObservation | undefined)
    )
  }

  set(ticketId: string, observation: TicketObservation): void {
    this.#changed.set(ticketId, observation)
    this.#toWrite.set(ticketId, observation)
    this.#requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    return {
      writes: [...written].map(
        ([key, value]): Write => ({ table: 'key-value', collection: 'ticket', key, value }),
      ),
      onCommitted: () => {
        for (const [id, observation] of written)
          if (this.#changed.get(id) === observation) this.#changed.delete(id)
      },
    }
  }
}

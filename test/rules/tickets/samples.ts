/** Returns a sample ticket with the given differences. */
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import type { Ticket } from '../../../protocol/run.ts'

export function sampleTicket(odd: Partial<Ticket> = {}): Ticket {
  const id = odd.id ?? 't-1'
  return {
    id,
    identifier: `ENG-${id}`,
    title: 'The lamp flickers',
    description: '',
    url: '',
    state: 'Todo',
    priority: 0,
    labels: [],
    blockedBy: [],
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    ...odd,
  }
}

export const tracked = (odd: Partial<Ticket> = {}, closed = false): TrackedTicket => ({
  ticket: sampleTicket(odd),
  closed,
})

export const byId = (...tickets: readonly TrackedTicket[]): ReadonlyMap<string, TrackedTicket> =>
  new Map(tickets.map((tracked) => [tracked.ticket.id, tracked]))

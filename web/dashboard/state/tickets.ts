/**
 * The eligible tickets, which only some pages show: read once one of them asks, and kept up to date from then on.
 *
 * Changes that come while the list is on its way are newer than the list.
 */
import { effect } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ChangesFrame } from '../../../protocol/dashboard.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { compareTickets } from '../../../protocol/ticket-order.ts'
import { host } from './host.ts'
import { live, watchFrames } from './live.ts'
import { hellos, tickets } from './records.ts'

let isFollowed = false
let changedMeanwhile = new Map<string, Ticket | undefined>()

/** Keeps the list there from the first component on that shows it. */
export function useTickets(): void {
  useEffect(readTickets, [])
}

export function readTickets(): void {
  if (isFollowed) return
  isFollowed = true
  watchFrames(applyChange)
  effect(() => {
    // Each connection begins with a hello, and what changed before it is unknown.
    void hellos.value
    if (live.value.state !== 'live') return undefined
    const controller = new AbortController()
    void readList(controller.signal)
    return () => controller.abort()
  })
}

async function readList(signal: AbortSignal): Promise<void> {
  changedMeanwhile = new Map()
  const read = await host.listTickets({}, { signal }).catch(() => undefined)
  // The state of the connection tells what is wrong, and the next one asks again.
  if (read === undefined || signal.aborted) return
  tickets.value = withChanges(read, changedMeanwhile)
}

function applyChange(frame: ChangesFrame): void {
  if (frame.type !== 'tickets-changed') return
  const changes = new Map<string, Ticket | undefined>([
    ...frame.removed.map((id) => [id, undefined] as const),
    ...frame.changed.map((ticket) => [ticket.id, ticket] as const),
  ])
  for (const [id, ticket] of changes) changedMeanwhile.set(id, ticket)
  if (tickets.value !== undefined) tickets.value = withChanges(tickets.value, changes)
}

/** In the order in which the tickets are taken. */
function withChanges(
  list: readonly Ticket[],
  changes: ReadonlyMap<string, Ticket | undefined>,
): readonly Ticket[] {
  if (changes.size === 0) return list
  const changed = [...changes.values()].filter((ticket) => ticket !== undefined)
  return [...list.filter(({ id }) => !changes.has(id)), ...changed].sort(compareTickets)
}

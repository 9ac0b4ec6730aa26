/** The tickets of a listing: what a later listing has changed, and that it costs what has changed. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import {
  openBlockers,
  type TicketsById,
  waitingCycle,
  waitingReason,
} from '../../../core/tickets/blockers.ts'
import { type EligibilityRules, isEligible } from '../../../core/tickets/eligibility.ts'
import { TicketListing } from '../../../core/tickets/ticket-listing.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { compareTickets } from '../../../protocol/ticket-order.ts'
import { tracked } from './samples.ts'

const rules: EligibilityRules = { states: ['Todo'], labels: [], projects: [], assignees: [] }
const ids = (tickets: readonly Ticket[]) => tickets.map(({ id }) => id)

function listingOf(...tickets: readonly TrackedTicket[]): TicketListing {
  const listing = new TicketListing()
  listing.replace(tickets, rules)
  return listing
}

test('tickets that appeared, changed or left are named, and no others', () => {
  const listing = listingOf(tracked({ id: 'a' }), tracked({ id: 'b' }), tracked({ id: 'c' }))
  const later = [tracked({ id: 'a' }), tracked({ id: 'b', title: 'Other' }), tracked({ id: 'd' })]
  const { changed, isEligibleChanged } = listing.replace(later, rules)
  expect([...changed].sort()).toEqual(['b', 'c', 'd'])
  expect([isEligibleChanged, ids(listing.eligible)]).toEqual([true, ['a', 'b', 'd']])
})

test.each<[field: string, TrackedTicket]>([
  ['title', tracked({ title: 'Other' })],
  ['a label', tracked({ labels: ['x', 'z'] })],
  ['the number of labels', tracked({ labels: ['x', 'y', 'z'] })],
  ['a blocker', tracked({ labels: ['x', 'y'], blockedBy: ['b'] })],
  ['an optional field', tracked({ labels: ['x', 'y'], assignee: 'Ana' })],
  ['closed', tracked({ labels: ['x', 'y'] }, true)],
  ['aliases', { ...tracked({ labels: ['x', 'y'] }), aliases: { assignee: ['a@b.c'], project: [] } }],
])('another value is a change: %s', (_, later) => {
  const listing = listingOf(tracked({ labels: ['x', 'y'] }))
  expect([...listing.replace([later], rules).changed]).toEqual(['t-1'])
  expect(listing.byId.get('t-1')).toEqual(later)
})

test('a ticket that reads as before keeps its object, and so does the list of the eligible', () => {
  const [a, b] = [tracked({ id: 'a', labels: ['x'] }), tracked({ id: 'b' })]
  const listing = listingOf(a, b)
  const { eligible } = listing
  const again = listing.replace([structuredClone(b), structuredClone(a)], rules)
  expect(again).toEqual({
    changed: new Set(),
    affectedNames: new Set(),
    isEligibleChanged: false,
    leftOut: 0,
  })
  expect(listing.eligible).toBe(eligible)
  listing.replace([structuredClone(a), tracked({ id: 'c' })], rules)
  expect(listing.byId.get('a')).toBe(a)
})

test('a ticket that cannot be listed is left out, and counted when the listing changes there', () => {
  const listing = new TicketListing(({ ticket }) => ticket.id !== 'b')
  const [a, b] = [tracked({ id: 'a' }), tracked({ id: 'b' })]
  expect(listing.replace([a, b], rules)).toMatchObject({ changed: new Set(['a']), leftOut: 1 })
  expect(listing.replace([a, b], rules)).toMatchObject({ changed: new Set(), leftOut: 0 })
  expect(listing.replace([a], rules).changed.size).toBe(0)
  expect([...listing.byId.keys()]).toEqual(['a'])
})

test('a change that people do not see leaves the list of eligible tickets as it is', () => {
  const listing = listingOf(tracked({ id: 'a' }), tracked({ id: 'b', state: 'Backlog' }))
  const aliased = { ...tracked({ id: 'a' }), aliases: { assignee: ['a@b.c'], project: [] } }
  const change = listing.replace([aliased, tracked({ id: 'b', state: 'Backlog', title: 'Other' })], rules)
  expect([change.changed.size, change.isEligibleChanged]).toEqual([2, false])
})

test('one changed ticket among many is the only one that is judged', () => {
  let judged = 0
  const counted = (id: string, title: string): TrackedTicket => {
    const { ticket } = tracked({ id, title })
    return {
      ticket,
      get closed() {
        judged += 1
        return false
      },
    }
  }
  const many = Array.from({ length: 1_000 }, (_, n) => counted(`t-${n}`, 'A'))
  const listing = listingOf(...many)
  judged = 0
  listing.replace(
    many.map((entry, n) => (n === 500 ? counted('t-500', 'B') : entry)),
    rules,
  )
  expect(judged).toBeLessThan(5)
  expect(listing.eligible.find(({ id }) => id === 't-500')?.title).toBe('B')
})

// ---- against a new look at everything ----------------------------------------------------------------------------

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f']
const anyTicket = fc.record({
  id: fc.constantFrom(...NAMES),
  // Identifiers may be those of several tickets, and equal to ids.
  identifier: fc.constantFrom('A', 'B', 'C', 'd', 'e'),
  state: fc.constantFrom('Todo', 'Backlog'),
  priority: fc.constantFrom<0 | 1 | 2>(0, 1, 2),
  createdAt: fc.constantFrom('2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z'),
  blockedBy: fc.uniqueArray(fc.constantFrom(...NAMES, 'A', 'B', 'C'), { maxLength: 2 }),
})
const anyListing = fc.uniqueArray(
  fc.tuple(anyTicket, fc.boolean()).map(([odd, closed]) => tracked(odd, closed)),
  { selector: ({ ticket }) => ticket.id },
)

function waitReason(ticket: Ticket, byId: TicketsById): string | undefined {
  const blockers = openBlockers(ticket, byId)
  return blockers.length === 0 ? undefined : waitingReason(blockers, waitingCycle(ticket, byId))
}

test('after any listings, order, eligibility and tickets are those of a new listing', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anyListing, fc.boolean()), { maxLength: 6 }), (listings) => {
      const listing = new TicketListing()
      let current = rules
      for (const [tickets, isRuleChange] of listings) {
        listing.replace(tickets, current)
        if (isRuleChange) {
          current = { ...current, states: current.states[0] === 'Todo' ? ['Backlog'] : ['Todo'] }
          listing.applyRules(current)
        }
        const eligible = tickets.filter((entry) => isEligible(entry, current)).map(({ ticket }) => ticket)
        expect(listing.eligible).toEqual(eligible.sort(compareTickets))
        expect(new Map(listing.byId)).toEqual(new Map(tickets.map((entry) => [entry.ticket.id, entry])))
        for (const { ticket } of tickets)
          expect(listing.isEligible(ticket.id)).toBe(eligible.some(({ id }) => id === ticket.id))
      }
    }),
  )
})

test('after any edits of a long listing whose unchanged objects stay, it is that of a new listing', () => {
  const anyEdit = fc.record({
    at: fc.nat(59),
    removed: fc.nat(2),
    added: fc.uniqueArray(fc.nat(30), { maxLength: 2 }),
  })
  fc.assert(
    fc.property(fc.array(fc.array(anyEdit, { maxLength: 3 }), { maxLength: 5 }), (polls) => {
      const listing = new TicketListing()
      let tickets: readonly TrackedTicket[] = Array.from({ length: 60 }, (_, n) => tracked({ id: `t-${n}` }))
      polls.forEach((edits, poll) => {
        listing.replace(tickets, rules)
        for (const { at, removed, added } of edits) {
          const fresh = added.map((n) =>
            tracked({ id: `t-${n}`, title: `${poll}`, state: n % 2 ? 'Todo' : 'Backlog' }),
          )
          const ids = new Set(fresh.map(({ ticket }) => ticket.id))
          tickets = tickets
            .toSpliced(at, removed)
            .filter(({ ticket }) => !ids.has(ticket.id))
            .toSpliced(at, 0, ...fresh)
        }
        listing.replace(tickets, rules)
        expect(new Map(listing.byId)).toEqual(new Map(tickets.map((entry) => [entry.ticket.id, entry])))
        const eligible = tickets.filter((entry) => isEligible(entry, rules)).map(({ ticket }) => ticket)
        expect(listing.eligible).toEqual(eligible.sort(compareTickets))
      })
    }),
  )
})

test('whatever waits otherwise than before is affected: listed, or known to a run only', () => {
  fc.assert(
    fc.property(anyListing, anyListing, anyListing, (before, later, elsewhere) => {
      const listing = listingOf(...before)
      const earlier = new Map(listing.byId)
      const { affectedNames } = listing.replace(later, rules)
      for (const { ticket } of [...later, ...elsewhere]) {
        const was = earlier.get(ticket.id)?.ticket ?? ticket
        const now = listing.byId.get(ticket.id)?.ticket ?? ticket
        if (waitReason(was, earlier) === waitReason(now, listing.byId)) continue
        expect([ticket.id, ...now.blockedBy].some((name) => affectedNames.has(name))).toBe(true)
      }
    }),
    { numRuns: 1_000 },
  )
})

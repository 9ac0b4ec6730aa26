/** Tests of the queue's order: priority 1, 2, 3, 4, 0, then age. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { replaceInOrder } from '../../../core/tickets/ticket-listing.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { compareTickets, priorityRank } from '../../../protocol/ticket-order.ts'
import { sampleTicket } from './samples.ts'

const anyTicket = fc
  .record({
    id: fc.string({ minLength: 1, maxLength: 3 }),
    priority: fc.constantFrom<Ticket['priority']>(0, 1, 2, 3, 4),
    createdAt: fc
      .date({ min: new Date(0), max: new Date(3), noInvalidDate: true })
      .map((date) => date.toISOString()),
  })
  .map(sampleTicket)

test('1, 2, 3, 4 and 0 rank in this order', () => {
  expect(([1, 2, 3, 4, 0] as const).map(priorityRank)).toEqual([0, 1, 2, 3, 4])
})

test('priority comes before age, age before the id', () => {
  const early = '2026-01-01T00:00:00.000Z'
  const late = '2026-01-02T00:00:00.000Z'
  const tickets = [
    sampleTicket({ id: 'none', priority: 0, createdAt: early }),
    sampleTicket({ id: 'low', priority: 4, createdAt: early }),
    sampleTicket({ id: 'urgent-late', priority: 1, createdAt: late }),
    sampleTicket({ id: 'urgent-b', priority: 1, createdAt: early }),
    sampleTicket({ id: 'urgent-a', priority: 1, createdAt: early }),
  ]
  expect(tickets.sort(compareTickets).map(({ id }) => id)).toEqual([
    'urgent-a',
    'urgent-b',
    'urgent-late',
    'low',
    'none',
  ])
})

test('the order is total: antisymmetric and transitive', () => {
  fc.assert(
    fc.property(anyTicket, anyTicket, anyTicket, (a, b, c) => {
      expect(Math.sign(compareTickets(a, b)) + Math.sign(compareTickets(b, a))).toBe(0)
      const isSame = a.id === b.id && a.priority === b.priority && a.createdAt === b.createdAt
      expect(compareTickets(a, b) === 0).toBe(isSame)
      if (compareTickets(a, b) <= 0 && compareTickets(b, c) <= 0) {
        expect(compareTickets(a, c)).toBeLessThanOrEqual(0)
      }
    }),
  )
})

test('the queue does not depend on the order of the tracker’s listing', () => {
  const tickets = fc.uniqueArray(anyTicket, { selector: ({ id }) => id, maxLength: 12 })
  const shuffled = tickets.chain((queue) =>
    fc.tuple(fc.constant(queue), fc.shuffledSubarray(queue, { minLength: queue.length })),
  )
  fc.assert(
    fc.property(shuffled, ([first, second]) => {
      expect([...second].sort(compareTickets)).toEqual([...first].sort(compareTickets))
    }),
  )
})

test('a list with few or many replaced items is the sorted list, and the earlier one stays', () => {
  const anyNumbers = fc.uniqueArray(fc.nat(1_000), { maxLength: 200 })
  fc.assert(
    fc.property(anyNumbers, anyNumbers, fc.nat(12), (numbers, others, count) => {
      const compare = (a: number, b: number) => a - b
      const ordered = [...numbers].sort(compare)
      const removed = numbers.slice(0, count)
      const added = others.filter((number) => !numbers.includes(number)).slice(0, count)
      const before = [...ordered]
      const expected = [...numbers.slice(count), ...added].sort(compare)
      expect(replaceInOrder(ordered, { removed, added }, compare)).toEqual(expected)
      expect(ordered).toEqual(before)
    }),
  )
})

/** Tests of blockers and of the words of the queue reason. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  BLOCKERS_WALKED_MAX,
  openBlockers,
  unlistedReason,
  waitingCycle,
  waitingReason,
} from '../../../core/tickets/blockers.ts'
import { NAMES_LISTED_MAX } from '../../../protocol/limits.ts'
import { byId, sampleTicket, tracked } from './samples.ts'

test('a ticket waits for known open tickets, by id or identifier, each once', () => {
  const known = byId(
    tracked({ id: 'a', identifier: 'ENG-1' }),
    tracked({ id: 'b', identifier: 'ENG-2' }),
    tracked({ id: 'c', identifier: 'ENG-3' }, true),
    tracked({ id: 'd', identifier: 'ENG-4' }),
  )
  const ticket = sampleTicket({ id: 'x', blockedBy: ['ENG-2', 'a', 'b', 'c', 'ENG-3', 'nobody', 'ENG-4'] })
  expect(openBlockers(ticket, known)).toEqual(['ENG-2', 'ENG-1', 'ENG-4'])
})

test('no ticket waits for itself, by id or identifier', () => {
  const self = tracked({ id: 'a', identifier: 'ENG-1', blockedBy: ['a', 'ENG-1'] })
  expect(openBlockers(self.ticket, byId(self))).toEqual([])
})

test('an id is preferred to an equal identifier', () => {
  const known = byId(tracked({ id: '1', identifier: '2' }), tracked({ id: '2', identifier: 'two' }))
  expect(openBlockers(sampleTicket({ id: 'x', blockedBy: ['2'] }), known)).toEqual(['two'])
})

test('tickets in a cycle keep waiting, and the reason shows the cycle', () => {
  const a = tracked({ id: 'a', identifier: 'ENG-1', blockedBy: ['b'] })
  const b = tracked({ id: 'b', identifier: 'ENG-2', blockedBy: ['ENG-1'] })
  const behind = tracked({ id: 'c', identifier: 'ENG-3', blockedBy: ['a'] })
  const known = byId(a, b, behind)
  expect(openBlockers(a.ticket, known)).toEqual(['ENG-2'])
  expect(waitingCycle(a.ticket, known)).toEqual(['ENG-1', 'ENG-2', 'ENG-1'])
  expect(waitingCycle(behind.ticket, known)).toEqual(['ENG-1', 'ENG-2', 'ENG-1'])
  expect(waitingReason(['ENG-2'], waitingCycle(a.ticket, known))).toBe(
    'waiting for ENG-2; it is a circle, in which each waits for the next: ENG-1, ENG-2, ENG-1. ' +
      "Take one of them out of another's blockedBy",
  )
})

test('a closed ticket breaks the cycle', () => {
  const a = tracked({ id: 'a', blockedBy: ['b'] })
  const b = tracked({ id: 'b', blockedBy: ['a'] }, true)
  expect(waitingCycle(a.ticket, byId(a, b))).toEqual([])
})

test('the reason names a limited number of tickets, in printable form', () => {
  expect(waitingReason(['ENG-1', 'ENG-2'])).toBe('waiting for ENG-1, ENG-2')
  expect(waitingReason(['a\nb'])).toBe('waiting for a\ufffdb')
  const many = Array.from({ length: NAMES_LISTED_MAX + 2 }, (_, n) => `E-${n}`)
  expect(waitingReason(many)).toMatch(/, E-19 and 2 more$/)
})

test('a long chain is walked up to the limit, without recursion', () => {
  const chain = (length: number) => {
    const links = Array.from({ length }, (_, n) =>
      tracked({ id: `${n}`, blockedBy: [`${(n + 1) % length}`] }),
    )
    return waitingCycle(sampleTicket({ id: '0', blockedBy: ['1'] }), byId(...links))
  }
  expect(chain(BLOCKERS_WALKED_MAX)).toHaveLength(BLOCKERS_WALKED_MAX + 1)
  expect(chain(BLOCKERS_WALKED_MAX + 1)).toEqual([])
})

test('a reported cycle is one; without a cycle some ticket can always start', () => {
  const ids = ['0', '1', '2', '3', '4']
  const anyListing = fc.array(fc.tuple(fc.uniqueArray(fc.constantFrom(...ids)), fc.boolean()), {
    minLength: 5,
    maxLength: 5,
  })
  fc.assert(
    fc.property(anyListing, (listing) => {
      const tickets = listing.map(([blockedBy, closed], n) =>
        tracked({ id: `${n}`, identifier: `${n}`, blockedBy }, closed),
      )
      const known = byId(...tickets)
      const waits = (id: string) => openBlockers(known.get(id)?.ticket ?? sampleTicket(), known)
      const open = tickets.filter(({ closed }) => !closed).map(({ ticket }) => ticket)
      const circles = open.map((ticket) => waitingCycle(ticket, known))
      for (const circle of circles.filter(({ length }) => length > 0)) {
        expect(circle[0]).toBe(circle.at(-1))
        circle.slice(1).forEach((next, at) => {
          expect(waits(circle[at] ?? '')).toContain(next)
        })
      }
      const isFree = open.some(({ id }) => waits(id).length === 0)
      if (open.length > 0 && !isFree) expect(circles.every(({ length }) => length > 0)).toBe(true)
      if (circles.every(({ length }) => length === 0)) expect(open.length === 0 || isFree).toBe(true)
    }),
  )
})

test('the tickets of a listing are indexed only once', () => {
  const chain = Array.from({ length: 3_000 }, (_, n) =>
    tracked({ id: `f-${n}`, identifier: `ENG-${n}`, blockedBy: [`ENG-${n + 1}`] }),
  )
  const known = byId(...chain)
  let walks = 0
  const counted: typeof known = Object.assign(new Map(known), {
    values: () => {
      walks += 1
      return known.values()
    },
  })
  for (const { ticket } of chain.slice(0, 5)) {
    expect(openBlockers(ticket, counted)).toHaveLength(1)
    expect(waitingCycle(ticket, counted)).toEqual([])
  }
  expect(walks).toBe(1)
})

test('before the first listing the reason names what may be open', () => {
  expect(unlistedReason(['ENG-1'])).toBe('waiting for the tracker, which says whether ENG-1 is done')
  expect(unlistedReason(['ENG-1', 'b'])).toBe('waiting for the tracker, which says whether ENG-1, b are done')
})

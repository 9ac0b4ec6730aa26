import { describe, expect, test } from '@jest/globals'
import { type EventPage, type EventPageQuery, planEventPage } from '../../../core/run/event-page.ts'
import { EVENTS_PAGE_DEFAULT } from '../../../protocol/limits.ts'

const END = 250
const older = (index: number, limit: number) => ({ before: index, limit })
const newer = (index: number, limit: number) => ({ after: index, limit })

describe('pages of a log with 250 events', () => {
  test.each<[string, EventPageQuery, EventPage]>([
    ['no parameters: the whole log', {}, { read: { after: -1 } }],
    ['after alone: the rest of the log', { after: 9 }, { read: { after: 9 } }],
    ['limit alone: the first', { limit: 5 }, { read: newer(-1, 5), next: newer(4, 5) }],
    ['after and limit', { after: 4, limit: 5 }, { read: newer(4, 5), prev: older(5, 5), next: newer(9, 5) }],
    ['the last page', { after: 244, limit: 5 }, { read: newer(244, 5), prev: older(245, 5) }],
    ['behind the end', { after: 900, limit: 5 }, { read: newer(900, 5), prev: older(END, 5) }],
    ['tail', { tail: 5 }, { read: { after: 244, before: 250 }, prev: older(245, 5) }],
    ['tail of all', { tail: 250 }, { read: { after: -1, before: 250 } }],
    ['tail of more than all', { tail: 1000 }, { read: { after: -1, before: 250 } }],
    [
      'before',
      { before: 245, limit: 5 },
      { read: { after: 239, before: 245 }, prev: older(240, 5), next: newer(244, 5) },
    ],
    [
      'before without limit',
      { before: 245 },
      {
        read: { after: 144, before: 245 },
        prev: older(145, EVENTS_PAGE_DEFAULT),
        next: newer(244, EVENTS_PAGE_DEFAULT),
      },
    ],
    ['before the first', { before: 0, limit: 5 }, { read: { after: -1, before: 0 }, next: newer(-1, 5) }],
    ['before an early one', { before: 3, limit: 5 }, { read: { after: -1, before: 3 }, next: newer(2, 5) }],
    ['before the end', { before: 999, limit: 5 }, { read: { after: 244, before: 250 }, prev: older(245, 5) }],
  ])('%s', (_name, query, page) => {
    expect(planEventPage(query, END)).toEqual({ ok: true, value: page })
  })

  test.each<[string, EventPageQuery]>([
    ['before', { before: 1, after: 1 }],
    ['tail', { tail: 1, after: 1 }],
    ['tail', { tail: 1, before: 1 }],
    ['limit', { tail: 1, limit: 1 }],
  ])('%s is refused beside what it excludes', (name, query) => {
    expect(planEventPage(query, END)).toMatchObject({
      ok: false,
      refusal: { kind: 'invalid', message: expect.stringMatching(`^/query/${name}: `) },
    })
  })
})

test('an empty log has no page beside another', () => {
  for (const query of [{ tail: 5 }, { before: 0 }, { before: 7 }, { limit: 5 }, { after: 3, limit: 5 }])
    expect(planEventPage(query, 0)).toEqual({ ok: true, value: { read: expect.anything() } })
})

/** The list of tickets: each beside its newest run, and the filters of the address. */
import { expect, test } from '@jest/globals'
import type { Run, Ticket } from '../../../protocol/run.ts'
import {
  countSituations,
  filterTickets,
  ticketRowsOf,
  valuesOf,
} from '../../../web/dashboard/tickets/ticket-rows.ts'
import { eligibleSentence, pollSentence } from '../../../web/dashboard/tracker-words.ts'

const ticket = (id: string, fields: Partial<Ticket> = {}): Ticket => ({
  id,
  identifier: id,
  title: `Title of ${id}`,
  description: '',
  url: '',
  state: 'Todo',
  priority: 0,
  labels: [],
  blockedBy: [],
  createdAt: '2026-11-23T12:00:00.000Z',
  updatedAt: '2026-11-23T12:00:00.000Z',
  ...fields,
})

const run = (of: Ticket, minute: number, fields: Partial<Run>): Run => ({
  id: `run-${of.id}-${minute}`,
  ticket: of,
  status: 'queued',
  sandbox: { provider: 'bwrap' },
  createdAt: `2026-11-23T12:${String(minute).padStart(2, '0')}:00.000Z`,
  costs: [],
  ...fields,
})

const [a, b, c, d] = [
  ticket('A-1', { labels: ['api'], priority: 1 }),
  ticket('B-2', { labels: ['web', 'api'] }),
  ticket('C-3', { state: 'Ready', repo: 'web' }),
  ticket('D-4'),
]
const rows = ticketRowsOf(
  [a, b, c, d],
  [
    run(a, 9, { status: 'running' }),
    run(a, 3, { status: 'failed' }),
    run(b, 1, { queueReason: 'waiting for A-1' }),
    run(c, 2, { queueReason: 'no workers connected' }),
    run(d, 1, { status: 'completed' }),
  ],
)
const idsOf = (filter: Parameters<typeof filterTickets>[1]) =>
  filterTickets(rows, filter).map((row) => row.ticket.id)

test('each ticket has its newest run, and the order stays', () => {
  expect(rows.map(({ run: newest, situation }) => [newest?.id, situation])).toEqual([
    ['run-A-1-9', 'progress'],
    ['run-B-2-1', 'blocked'],
    ['run-C-3-2', 'waits'],
    ['run-D-4-1', 'none'],
  ])
  expect(countSituations(rows)).toEqual({ progress: 1, waits: 1, blocked: 1, none: 1 })
})

test.each([
  [{}, ['A-1', 'B-2', 'C-3', 'D-4']],
  [{ run: 'none' }, ['D-4']],
  [{ label: 'api' }, ['A-1', 'B-2']],
  [{ label: 'api', run: 'blocked' }, ['B-2']],
  [{ state: 'Ready' }, ['C-3']],
  [{ repo: 'web' }, ['C-3']],
  [{ priority: '1' }, ['A-1']],
  [{ q: 'title d-' }, ['D-4']],
  [{ q: 'nothing' }, []],
])('%p leaves %p', (filter, ids) => expect(idsOf(filter)).toEqual(ids))

test('the values of a filter are those of the tickets', () => {
  expect(valuesOf(rows, ({ labels }) => labels)).toEqual(['api', 'web'])
  expect(valuesOf(rows, ({ repo }) => [repo])).toEqual(['web'])
})

test('an empty list explains itself', () => {
  const now = Date.parse('2026-11-23T12:00:12.000Z')
  const polled = {
    state: 'connected',
    lastPollAt: '2026-11-23T12:00:00.000Z',
    seen: 14,
    eligible: 0,
  } as const
  expect(pollSentence('linear', polled, now)).toBe('Linear was polled 12 s ago: 14 tickets seen, 0 eligible.')
  expect(pollSentence('github', { state: 'connected', error: 'it answers 502' }, now)).toBe(
    'GitHub was not polled yet. It answers 502.',
  )
  expect(
    eligibleSentence({ states: ['Todo', 'Ready'], labels: ['agent'], projects: [], assignees: [] }),
  ).toBe('Eligible are tickets in state Todo or Ready, with the label agent.')
})

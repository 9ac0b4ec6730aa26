/** The list of tickets: each beside its newest run, and the filters of the address. */
import { expect, test } from '@jest/globals'
import type { Run, Ticket } from '../../../protocol/run.ts'
import {
  askedTickets,
  type ListedTickets,
  rowRunOf,
  runsByTicket,
  ticketRowsOf,
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
const runs = runsByTicket([
  run(a, 9, { status: 'running' }),
  run(a, 3, { status: 'failed' }),
  run(b, 1, { queueReason: 'waiting for A-1' }),
  run(c, 2, { queueReason: 'no workers connected' }),
  run(c, 3, { status: 'failed' }),
  run(d, 1, { status: 'completed' }),
])
const COMPLETE = { last: undefined, isComplete: true }
const rowsOf = (query: string, listed: ListedTickets = COMPLETE, known = [d, c, b, a]) =>
  ticketRowsOf(known, askedTickets(new URLSearchParams(query)), listed, (id) =>
    rowRunOf(runs.get(id), undefined),
  )
const idsOf = (query: string, listed?: ListedTickets) => rowsOf(query, listed).map((row) => row.ticket.id)

test('each ticket has its unfinished run or its newest one, in the order in which the tickets are taken', () => {
  expect(rowsOf('').map(({ run: newest, situation }) => [newest?.id, situation])).toEqual([
    ['run-A-1-9', 'progress'],
    ['run-B-2-1', 'blocked'],
    ['run-C-3-2', 'waits'],
    ['run-D-4-1', 'none'],
  ])
})

test.each([
  ['', ['A-1', 'B-2', 'C-3', 'D-4']],
  ['run=none', ['D-4']],
  ['run=odd&priority=9', ['A-1', 'B-2', 'C-3', 'D-4']],
  ['label=api', ['A-1', 'B-2']],
  ['label=api&run=blocked', ['B-2']],
  ['state=Ready', ['C-3']],
  ['repo=web', ['C-3']],
  ['priority=1', ['A-1']],
  ['q=title+d-', ['D-4']],
  ['q=nothing', []],
])('%p leaves %p', (query, ids) => expect(idsOf(query)).toEqual(ids))

test('known tickets belong to the list down to the last one that the host has listed, in every order', () => {
  const older = ticket('E-5', { createdAt: '2026-11-22T12:00:00.000Z' })
  const upTo = (last: Ticket | undefined, query: string) =>
    rowsOf(query, { last, isComplete: false }, [d, older, c, b, a]).map((row) => row.ticket.id)
  expect(upTo(b, '')).toEqual(['A-1', 'E-5', 'B-2'])
  expect(upTo(b, 'sort=oldest')).toEqual(['E-5', 'A-1', 'B-2'])
  expect(upTo(c, 'sort=newest')).toEqual(['A-1', 'B-2', 'C-3'])
  expect(upTo(undefined, '')).toEqual([])
})

test('a run that the host has read counts unless a newer or an unfinished one was pushed', () => {
  const read = { ticketId: 'D-4', runId: 'run-D-4-5', status: 'completed', unchanged: true } as const
  const idOf = (pushed: Run | undefined) => rowRunOf(pushed, read)?.id
  expect(rowRunOf(undefined, read)).toEqual({
    id: 'run-D-4-5',
    status: 'completed',
    unchanged: true,
    whole: undefined,
  })
  expect(idOf(run(d, 1, { status: 'failed' }))).toBe('run-D-4-5')
  expect(idOf(run(d, 1, { status: 'running' }))).toBe('run-D-4-1')
  expect(idOf(run(d, 9, { status: 'failed' }))).toBe('run-D-4-9')
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

/** Tests of where a run's ticket goes. */
import { describe, expect, test } from '@jest/globals'
import {
  allowedOrigins,
  endHold,
  endsWithTicket,
  holdsTickets,
  holdTicket,
  nextTicketStep,
  observeTicket,
  releaseTicket,
  rememberedMove,
  stateOfStep,
  type TicketObservation,
  unchangedRunText,
} from '../../../core/tickets/run-progress.ts'
import type { Run } from '../../../protocol/run.ts'
import { sampleTicket } from './samples.ts'

const AT = '2026-01-01T00:00:00.000Z'
const ticket = sampleTicket({ state: 'Todo' })
const run: Run = { id: 'run-1', ticket, status: 'queued', sandbox: {}, createdAt: AT, costs: [] }
const states = { startedState: 'Doing', reviewState: 'Review', doneState: 'Done' }
const seen = (more: Partial<TicketObservation> = {}): TicketObservation => ({
  state: 'Todo',
  since: AT,
  ...more,
})
const result = { prUrl: 'https://example.org/o/n/pull/1', artifacts: [] }

describe('a run with', () => {
  test.each<[string, Partial<Run>, string | undefined]>([
    ['the status queued', { status: 'queued' }, undefined],
    ['the status preparing', { status: 'preparing' }, 'started'],
    ['the status running', { status: 'running' }, undefined],
    ['the status finalizing', { status: 'finalizing' }, undefined],
    ['the status failed', { status: 'failed' }, 'released'],
    ['the status cancelled', { status: 'cancelled' }, 'released'],
    ['a pull request', { status: 'completed', result, prState: 'open' }, 'review'],
    ['a pull request of an unknown state', { status: 'completed', result }, 'review'],
    ['a merged pull request', { status: 'completed', result, prState: 'merged' }, 'done'],
    ['no pull request', { status: 'completed', result: { artifacts: [] } }, 'released'],
    ['no result', { status: 'completed' }, 'released'],
    [
      'the open pull request of an earlier attempt',
      { status: 'completed', prUrl: result.prUrl, prState: 'draft' },
      'review',
    ],
    [
      'one of an earlier attempt, in a state that nobody knows yet',
      { status: 'completed', prUrl: result.prUrl },
      'review',
    ],
    [
      'the merged pull request of an earlier attempt',
      { status: 'completed', prUrl: result.prUrl, prState: 'merged' },
      'released',
    ],
  ])('%s', (_, more, step) => {
    expect(nextTicketStep({ ...run, ...more })).toBe(step)
  })
})

test('each step has its setting, and a merged ticket goes to review without doneState', () => {
  expect(stateOfStep('started', states)).toBe('Doing')
  expect(stateOfStep('review', states)).toBe('Review')
  expect(stateOfStep('done', states)).toBe('Done')
  expect(stateOfStep('done', { reviewState: 'Review' })).toBe('Review')
  expect(stateOfStep('started', {})).toBeUndefined()
})

test.each([
  ['startedState', { startedState: 'Doing' }, true],
  ['releasedState', { releasedState: 'Stuck' }, true],
  ['states to which no run releases a ticket', { reviewState: 'Review', doneState: 'Done' }, false],
])('whether tickets are held with %s', (_, settings, isHeld) => {
  expect(holdsTickets(settings)).toBe(isHeld)
})

describe('a held ticket', () => {
  test('goes back to the state that it had', () => {
    const held = holdTicket(seen({ state: 'In Review' }), run, states)
    expect(releaseTicket({ ...held, state: 'Doing', put: 'Doing' }, run, states)).toEqual({
      state: 'In Review',
      from: ['Doing'],
    })
  })

  test('may still be in that state when the move was not confirmed', () => {
    const held = holdTicket(seen(), run, states)
    expect(releaseTicket({ ...held, state: 'Doing' }, run, states)?.from).toEqual(['Doing', 'Todo'])
  })

  test('may also be in the state of the move before, where the started state has changed meanwhile', () => {
    const held = holdTicket(seen({ put: 'Doing' }), run, states)
    const { from } =
      releaseTicket({ ...held, state: 'Working' }, run, { ...states, startedState: 'Working' }) ?? {}
    expect(from).toEqual(['Working', 'Todo', 'Doing'])
  })

  test('goes to releasedState if that is set', () => {
    const held = holdTicket(seen(), run, states)
    expect(releaseTicket(held, run, { ...states, releasedState: 'Stuck' })?.state).toBe('Stuck')
  })

  test('that an earlier run left in the started state goes back to where that run took it', () => {
    const held = holdTicket(seen({ state: 'doing' }), run, states)
    expect(releaseTicket(held, run, states)?.state).toBe('Todo')
  })

  test('stays held by the first hold', () => {
    const held = holdTicket(seen(), run, states)
    expect(holdTicket({ ...held, state: 'Doing' }, run, states).origin).toBe('Todo')
  })

  test('is free once a person has moved it', () => {
    const held = { ...holdTicket(seen(), run, states), state: 'Doing', put: 'Doing' }
    const moved = observeTicket(held, { ...ticket, state: 'Blocked' }, AT)
    expect(releaseTicket(moved, run, { ...states, releasedState: 'Stuck' })).toBeUndefined()
  })

  test('is free once its run is over', () => {
    const free = endHold(holdTicket(seen(), run, states))
    expect(free).toEqual(seen())
    expect(endHold(free)).toBe(free)
    expect(releaseTicket(free, run, states)).toBeUndefined()
  })
})

test('a ticket that an earlier version has started is released too', () => {
  const stored = seen({ state: 'Doing', put: 'Doing' })
  expect(releaseTicket(stored, run, states)).toEqual({ state: 'Todo', from: ['Doing'] })
  expect(releaseTicket(seen({ state: 'Doing' }), run, states)).toBeUndefined()
})

test('the log of a run without changes names the ticket and its new state', () => {
  expect(unchangedRunText('ENG-1', 'Todo')).toBe(
    'the run changed nothing, so ENG-1 goes to Todo without a review',
  )
})

test.each<[string, Partial<TicketObservation>, ReturnType<typeof rememberedMove>]>([
  ['of a run that began', { state: 'Doing', origin: 'Todo' }, { state: 'Doing', from: 'Todo' }],
  ['to review', { state: 'review' }, { state: 'review', from: 'Doing' }],
  ['of finished work', { state: 'Done', put: 'Review' }, { state: 'Done', from: 'Doing' }],
  ['of a release', {}, { state: 'Todo', from: 'Doing', only: ['Doing', 'Todo'] }],
])('the move %s follows from what is remembered of the ticket', (_, more, move) => {
  expect(rememberedMove(seen(more), states)).toEqual(move)
})

test.each([
  ['waits in the queue', {}, 'stop', 'stop'],
  ['is with a worker', { run: { ...run, status: 'running' } }, 'finish', 'stop'],
  ['waits to be published', { publishing: {} }, 'finish', 'stop'],
  ['waits for the code host only', { adoption: {} }, 'finish', 'finish'],
  ['is a follow-up', { job: 'follow-up' }, 'finish', 'finish'],
] as const)(
  'when its ticket leaves, a run that %s ends as whenTicketLeaves says: %#',
  (_, more, finish, stop) => {
    const waiting = { run, job: 'run', adoption: null, publishing: null } as const
    const outcome = (whenTicketLeaves: 'finish' | 'stop') =>
      endsWithTicket({ ...waiting, ...more }, { whenTicketLeaves }) ? 'stop' : 'finish'
    expect([outcome('finish'), outcome('stop')]).toEqual([finish, stop])
  },
)

test.each([
  ['started', { state: 'doing', from: 'Todo' }, ['Todo', 'Doing', 'Review', 'Ready']],
  ['reviewed', { state: 'Review', from: 'Doing' }, undefined],
  ['released', { state: 'Todo', from: 'Doing', only: ['Doing'] }, ['Doing']],
  ['moved by an earlier version', { state: 'Doing' }, undefined],
])('a ticket that is %s may be moved from these states only: %#', (_, move, from) => {
  const eligible = { states: ['Ready'], labels: [], projects: [], assignees: [] }
  expect(allowedOrigins(move, { ...states, eligible })).toEqual(from)
})

/** Tests of when a ticket becomes a run by itself. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  observeTicket,
  recordHostMove,
  recordHostState,
  shouldStartRun,
  type TicketObservation,
} from '../../../core/tickets/run-progress.ts'
import { sampleTicket } from './samples.ts'

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString()
const todo = sampleTicket({ state: 'Todo', createdAt: at(0) })
const inState = (state: string) => ({ ...todo, state })

const wants = (memory: TicketObservation, lastFinishedAt?: string): boolean =>
  shouldStartRun({ eligible: true, memory, lastFinishedAt, hasActiveRun: false })

test('an eligible ticket without a run starts one', () => {
  expect(wants(observeTicket(undefined, todo, at(1)))).toBe(true)
})

test('no run starts while the ticket has one or is not eligible', () => {
  const memory = observeTicket(undefined, todo, at(1))
  expect(shouldStartRun({ eligible: true, memory, hasActiveRun: true })).toBe(false)
  expect(shouldStartRun({ eligible: false, memory, hasActiveRun: false })).toBe(false)
})

test('no run starts when one has finished since the ticket entered its state', () => {
  const memory = observeTicket(undefined, todo, at(1))
  expect(wants(memory, at(5))).toBe(false)
  expect(wants(memory, memory.since)).toBe(false)
})

test('a ticket that is moved away and back gets a new run', () => {
  const first = observeTicket(undefined, todo, at(1))
  const away = observeTicket(first, inState('Backlog'), at(6))
  const back = observeTicket(away, todo, at(7))
  expect(wants(back, at(5))).toBe(true)
  expect(wants(back, at(8))).toBe(false)
})

test('a fresh host with old runs does not repeat them', () => {
  expect(wants(observeTicket(undefined, todo, at(60)), at(5))).toBe(false)
})

test('a ticket with a future creation time counts as seen now', () => {
  expect(observeTicket(undefined, todo, at(-5)).since).toBe(at(-5))
})

test('the observation stays the same object while nothing changes', () => {
  const memory = observeTicket(undefined, todo, at(1))
  expect(observeTicket(memory, { ...todo, title: 'other', updatedAt: at(3) }, at(4))).toBe(memory)
  expect(observeTicket(memory, inState('TODO'), at(4))).toBe(memory)
})

test('a move by the host is no change, so an eligible review state starts no second run', () => {
  const memory = observeTicket(undefined, todo, at(1))
  const started = observeTicket(recordHostMove(memory, 'In Progress'), inState('In Progress'), at(2))
  const review = observeTicket(recordHostMove(started, 'In Review'), inState('In Review'), at(6))
  expect(review).toEqual({ state: 'In Review', since: at(0) })
  expect(wants(review, at(5))).toBe(false)
  expect(wants(observeTicket(review, todo, at(7)), at(5))).toBe(true)
  expect(recordHostMove(review, 'In Review')).toBe(review)
})

test('the state set by the host counts until a person changes it', () => {
  const memory = recordHostState(
    recordHostMove(observeTicket(undefined, todo, at(1)), 'In Progress'),
    'In Progress',
  )
  expect(recordHostState(memory, 'In Progress')).toBe(memory)
  expect(observeTicket(memory, inState('in progress'), at(2))).toBe(memory)
  expect(observeTicket(memory, inState('Backlog'), at(3))).toEqual({ state: 'Backlog', since: at(3) })
})

test('in any order of polls and run ends, each change of state starts one run', () => {
  const step = fc.oneof(
    fc.constantFrom('Todo', 'Doing').map((state) => ({ state })),
    fc.constant('finish' as const),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      let memory = observeTicket(undefined, todo, at(1))
      let finishedAt: string | undefined
      let hasChanged = true
      steps.forEach((step, n) => {
        const now = at(n + 2)
        if (step === 'finish') {
          finishedAt = now
          hasChanged = false
          return
        }
        hasChanged ||= step.state !== memory.state
        memory = observeTicket(memory, inState(step.state), now)
        expect(wants(memory, finishedAt)).toBe(hasChanged)
      })
    }),
  )
})

/** What counts as cut off, and what as failed by itself. */
import { expect, test } from '@jest/globals'
import { outcomeOf } from '../../../core/daemon/outcome.ts'
import { interruption, wasInterrupted } from '../../../core/run/interruption.ts'

test('an outcome is an interruption when it failed for that reason, and for no other', () => {
  expect(wasInterrupted({ status: 'failed', error: interruption('the worker was stopped') })).toBe(true)
  expect(wasInterrupted({ status: 'failed', error: 'the agent was interrupted: it says so' })).toBe(false)
  expect(wasInterrupted({ status: 'failed' })).toBe(false)
  expect(wasInterrupted({ status: 'cancelled', error: interruption('the worker was stopped') })).toBe(false)
})

test('what ended by itself was not cut off, whatever an agent says last', () => {
  const said = { status: 'failed', error: interruption('the worker was stopped'), costs: [] } as const
  const known = { progress: {}, costs: [], stop: null }
  const told = outcomeOf(known, { ...said, costs: [] })
  expect(wasInterrupted(told)).toBe(false)
  expect(told.error).toBe('it says: interrupted: the worker was stopped')
  const stop = { as: 'interrupted', how: 'kill', reason: interruption('the worker was stopped') } as const
  expect(wasInterrupted(outcomeOf({ ...known, stop }, { ...said, costs: [] }))).toBe(true)
})

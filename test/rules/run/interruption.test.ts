/** What counts as cut off, and what as failed by itself. */
import { expect, test } from '@jest/globals'
import { deriveOutcome } from '../../../core/daemon/outcome.ts'
import { interruptionError, isInterrupted } from '../../../core/run/interruption.ts'

test('an outcome is an interruption when it failed for that reason, and for no other', () => {
  expect(isInterrupted({ status: 'failed', error: interruptionError('the worker was stopped') })).toBe(true)
  expect(isInterrupted({ status: 'failed', error: 'the agent was interrupted: it says so' })).toBe(false)
  expect(isInterrupted({ status: 'failed' })).toBe(false)
  expect(isInterrupted({ status: 'cancelled', error: interruptionError('the worker was stopped') })).toBe(
    false,
  )
})

test('what ended by itself was not cut off, whatever an agent says last', () => {
  const said = { status: 'failed', error: interruptionError('the worker was stopped'), costs: [] } as const
  const known = { progress: {}, costs: [], stop: null }
  const told = deriveOutcome(known, { ...said, costs: [] })
  expect(isInterrupted(told)).toBe(false)
  expect(told.error).toBe('it says: interrupted: the worker was stopped')
  const stop = {
    as: 'interrupted',
    how: 'kill',
    reason: interruptionError('the worker was stopped'),
  } as const
  expect(isInterrupted(deriveOutcome({ ...known, stop }, { ...said, costs: [] }))).toBe(true)
})

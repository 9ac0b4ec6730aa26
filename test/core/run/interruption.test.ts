/** What counts as cut off, and what as failed by itself. */
import { expect, test } from '@jest/globals'
import { interruption, wasInterrupted } from '../../../core/run/interruption.ts'

test('an outcome is an interruption when it failed for that reason, and for no other', () => {
  expect(wasInterrupted({ status: 'failed', error: interruption('the worker was stopped') })).toBe(true)
  expect(wasInterrupted({ status: 'failed', error: 'the agent was interrupted: it says so' })).toBe(false)
  expect(wasInterrupted({ status: 'failed' })).toBe(false)
  expect(wasInterrupted({ status: 'cancelled', error: interruption('the worker was stopped') })).toBe(false)
})

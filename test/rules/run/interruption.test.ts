/** Tests of which failures count as interruptions. */
import { expect, test } from '@jest/globals'
import { deriveOutcome } from '../../../core/daemon/outcome.ts'
import {
  daemonEndedError,
  interruptionError,
  isInterrupted,
  isUnbegun,
} from '../../../core/run/interruption.ts'
import { isSetback } from '../../../core/run/setback.ts'
import { aCost } from './runs.ts'

test('an outcome is an interruption when it failed for that reason, and for no other', () => {
  expect(isInterrupted({ status: 'failed', error: interruptionError('the worker was stopped') })).toBe(true)
  expect(isInterrupted({ status: 'failed', error: 'the agent was interrupted: it says so' })).toBe(false)
  expect(isInterrupted({ status: 'failed' })).toBe(false)
  expect(isInterrupted({ status: 'cancelled', error: interruptionError('the worker was stopped') })).toBe(
    false,
  )
})

test('the error of a run names the phase in which its daemon ended', () => {
  const error = daemonEndedError('preparing')
  expect(error).toBe('interrupted: the worker daemon ended while the run was preparing')
  expect(isInterrupted({ status: 'failed', error })).toBe(true)
})

test('an execution that ended by itself is no interruption, whatever the agent’s last words are', () => {
  const reported = {
    status: 'failed',
    error: interruptionError('the worker was stopped'),
    costs: [],
  } as const
  const known = { begun: true, progress: {}, costs: [], stop: null }
  const outcome = deriveOutcome(known, { ...reported, costs: [] })
  expect(isInterrupted(outcome)).toBe(false)
  expect(outcome.error).toBe('it says: interrupted: the worker was stopped')
  const stop = {
    as: 'interrupted',
    how: 'kill',
    reason: interruptionError('the worker was stopped'),
  } as const
  expect(isInterrupted(deriveOutcome({ ...known, stop }, { ...reported, costs: [] }))).toBe(true)
})

test('an interrupted execution whose agent was done has work to publish', () => {
  const reason = daemonEndedError('finalizing')
  const known = { begun: true, costs: [], stop: { as: 'interrupted', how: 'kill', reason } as const }
  const outcomeWith = (unpublished: boolean) =>
    deriveOutcome({ ...known, progress: { sandbox: { id: 'run-1', unpublished } } }, null)
  expect(outcomeWith(true)).toMatchObject({ status: 'failed', failure: 'publish', error: reason })
  expect(outcomeWith(false)).not.toHaveProperty('failure')
  const pulled = { sandbox: { unpublished: true }, prUrl: 'https://codehost.example/pr/1' }
  expect(deriveOutcome({ ...known, progress: pulled }, null)).toMatchObject({ status: 'completed' })
})

test('an interrupted execution is given back only if its agent has certainly not begun', () => {
  const reason = daemonEndedError('preparing')
  const unbegun = {
    begun: false,
    progress: { sandbox: { id: 'run-1' } },
    costs: [],
    stop: { as: 'interrupted', how: 'kill', reason } as const,
  }
  const outcome = deriveOutcome(unbegun, null)
  expect(outcome).toEqual({
    status: 'failed',
    begun: false,
    failure: 'configuration',
    error: 'the worker daemon ended while the run was preparing',
    costs: [],
  })
  expect(isUnbegun(outcome)).toBe(true)
  // A host that does not know `begun` queues it again, too.
  expect(isSetback(outcome)).toBe(true)
  const pulled = { ...unbegun, progress: { prUrl: 'https://codehost.example/pr/1' } }
  for (const known of [
    { ...unbegun, begun: true },
    { ...unbegun, costs: [aCost({ outputTokens: 1 })] },
    pulled,
  ])
    expect(isUnbegun(deriveOutcome(known, null))).toBe(false)
})

/** The words that people read when their terminal session ends or does not begin. */
import { expect, test } from '@jest/globals'
import { SESSION_END_REASONS } from '../../../actors/terminals/terminal-session.machine.ts'

test.each<[reason: keyof typeof SESSION_END_REASONS, words: string]>([
  ['bootFailed', 'the sandbox could not be booted in time; try again'],
  ['workerLost', 'the worker disconnected while it booted the sandbox; try again once it is connected'],
  ['workerRevoked', 'the worker that held the sandbox is enrolled no more'],
  ['workerAway', 'the worker did not come back in time; try again once it is connected'],
  ['unwatched', 'the sandbox was released because no terminal was open; try again'],
  ['released', 'the session was released'],
  ['ended', 'the session has ended'],
])('%s: %s', (reason, words) => {
  expect(SESSION_END_REASONS[reason]).toBe(words)
})

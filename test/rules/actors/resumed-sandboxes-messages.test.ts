/** The words that people read when a restart of the worker ended their session. */
import { expect, test } from '@jest/globals'
import { SESSION_LOST_IN_RESTART } from '../../../actors/daemon/resumed-sandboxes.ts'

test('a restarted worker: the message says what happened and how to continue', () => {
  expect(SESSION_LOST_IN_RESTART).toBe(
    'the worker was restarted, and the session ended with it; attach again to continue it',
  )
})

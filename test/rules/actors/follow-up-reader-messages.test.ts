/** The queue reasons of a follow-up that waits for its pull request. */
import { expect, test } from '@jest/globals'
import { FOLLOW_UP_WAIT_REASONS } from '../../../actors/runs/follow-up-reader.ts'
import { SERVICE_FAILED } from '../../../core/result.ts'

test.each([
  ['a read runs', FOLLOW_UP_WAIT_REASONS.reading, 'its pull request is being read'],
  [
    'the code host answers with an error',
    FOLLOW_UP_WAIT_REASONS.unreadable('GitHub answered 502'),
    'its pull request cannot be read: GitHub answered 502',
  ],
  [
    'the reader throws',
    FOLLOW_UP_WAIT_REASONS.unreadable(SERVICE_FAILED),
    'its pull request cannot be read: the service failed; its log says why',
  ],
])('%s', (_situation, reason, words) => {
  expect(reason).toBe(words)
})

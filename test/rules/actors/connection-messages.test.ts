/** The reasons with which the host closes the connection of a worker. */
import { expect, test } from '@jest/globals'
import { CONNECTION_REPLACED, CONNECTION_SILENT } from '../../../actors/workers/connection.machine.ts'

test.each([
  ['replaced', CONNECTION_REPLACED, 'replaced by a newer connection'],
  ['silent', CONNECTION_SILENT, 'no frame arrived within the heartbeat timeout'],
])('%s', (_situation, reason, words) => {
  expect(reason).toBe(words)
})

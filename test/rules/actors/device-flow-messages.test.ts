/** The words that people read when the device flow of the code host fails. Each names the cure. */
import { expect, test } from '@jest/globals'
import { CODE_EXPIRED } from '../../../actors/accounts/device-flow.machine.ts'
import { CONNECT_CODEHOST_FAILED } from '../../../actors/accounts/device-flows.ts'

test.each([
  ['the code expired', CODE_EXPIRED, 'the code was not entered in time; connect the code host again'],
  ['the flow crashed', CONNECT_CODEHOST_FAILED, 'connecting the code host failed; connect it again'],
])('%s', (_situation, message, words) => {
  expect(message).toBe(words)
})

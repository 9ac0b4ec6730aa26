/** Tests of what two requests to stop one execution ask for together. */
import { expect, test } from '@jest/globals'
import { joinStopRequests } from '../../../core/daemon/outcome.ts'
import type { StopRequest } from '../../../core/daemon/ports.ts'

const interrupt: StopRequest = { how: 'interrupt', reason: 'cancelled' }
const kill: StopRequest = { how: 'kill', reason: 'too slow' }
const interruptOfLost: StopRequest = { how: 'interrupt', reason: 'revoked', leaseLost: true }
const killOfLost: StopRequest = { how: 'kill', reason: 'fenced', leaseLost: true }

test.each<[StopRequest | undefined, StopRequest, StopRequest | undefined]>([
  [undefined, interruptOfLost, interruptOfLost],
  [interrupt, interrupt, undefined],
  [interrupt, kill, kill],
  [interrupt, interruptOfLost, { how: 'interrupt', reason: 'cancelled', leaseLost: true }],
  [interrupt, killOfLost, killOfLost],
  [kill, interrupt, undefined],
  [kill, killOfLost, { how: 'kill', reason: 'too slow', leaseLost: true }],
  [kill, interruptOfLost, { how: 'kill', reason: 'too slow', leaseLost: true }],
  [interruptOfLost, kill, { how: 'kill', reason: 'too slow', leaseLost: true }],
  [killOfLost, killOfLost, undefined],
  [killOfLost, interrupt, undefined],
])('%j, then %j', (before, later, joined) => {
  expect(joinStopRequests(before, later)).toEqual(joined)
})

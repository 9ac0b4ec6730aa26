/** The device flow machine, for all orders of events from the code host and the dashboard. */
import { type DeviceFlowEvent, deviceFlowMachine } from '../../../actors/accounts/device-flow.machine.ts'
import { LAST_LINE, trailTests } from '../trail-tests.ts'

const T0 = Date.UTC(2026, 0, 1)

const started: DeviceFlowEvent = {
  type: 'started',
  now: 100,
  intervalMs: 5_000,
  expiresAt: T0 + 900_000,
}
const notStarted: DeviceFlowEvent = { type: 'start failed' }
const polled = (now: number): DeviceFlowEvent => ({ type: 'polled', handle: 1, now })
const pending: DeviceFlowEvent = { type: 'still pending', intervalMs: null, isTooFast: false }
const slowDown: DeviceFlowEvent = { type: 'still pending', intervalMs: 10_000, isTooFast: false }
const faster: DeviceFlowEvent = { type: 'still pending', intervalMs: 1_000, isTooFast: false }
const unanswered: DeviceFlowEvent = { type: 'unanswered' }
const codeRejected: DeviceFlowEvent = { type: 'code rejected', reason: 'denied' }
const token: DeviceFlowEvent = { type: 'token received' }
const saved: DeviceFlowEvent = { type: 'saved', detail: 'octocat' }
const notSaved: DeviceFlowEvent = { type: 'save failed', reason: 'bad token' }
const replaced: DeviceFlowEvent = { type: 'replaced' }
const superseded: DeviceFlowEvent = { type: 'superseded', reason: 'changed' }
const expiry: DeviceFlowEvent = { type: 'deadline.expiry' }

const input = { flow: 'device-1' }

trailTests<DeviceFlowEvent>(deviceFlowMachine, input, [
  [
    'a code is shown, the code host is polled after its interval, and the token is saved',
    [started, polled(5_100), pending, polled(10_100), token, saved, polled(15_000)],
  ],
  [
    'a poll before the interval has passed is answered without a call',
    [polled(0), started, polled(5_099), polled(5_100), pending, polled(5_200)],
  ],
  [
    'polls during a request to the code host or during the save share its result',
    [started, polled(5_100), polled(99_000), token, polled(99_000)],
  ],
  [
    'after slow_down the interval grows, counted from the last request, and never shrinks',
    [started, polled(5_100), slowDown, polled(15_000), polled(15_100), faster],
  ],
  [
    'an unreachable code host is polled again later, with a longer interval',
    [started, polled(5_100), unanswered],
    LAST_LINE,
  ],
  [
    'a denied code fails the flow, and later polls receive the reason',
    [started, polled(5_100), codeRejected, polled(6_000)],
  ],
  ['a code that is not entered expires', [started, expiry], LAST_LINE],
  [
    'a code that expires during a request fails when the reply holds no token',
    [started, polled(5_100), expiry, pending],
    LAST_LINE,
  ],
  [
    'a code that expires during a request fails when the request fails',
    [started, polled(5_100), expiry, unanswered],
    LAST_LINE,
  ],
  [
    'a code that expires during a request succeeds when the reply holds a token',
    [started, polled(5_100), expiry, token],
    LAST_LINE,
  ],
  ['a token that does not work is not saved', [started, polled(5_100), token, notSaved], LAST_LINE],
  ['a failed start is reported, and the flow is forgotten', [notStarted], LAST_LINE],
  ['a newer flow replaces it in every state', [started, polled(5_100), replaced], LAST_LINE],
  ['a token given by hand fails a waiting flow', [started, superseded], LAST_LINE],
  [
    'a token given by hand fails a polling flow, and the reply is ignored',
    [started, polled(5_100), superseded, token],
    LAST_LINE,
  ],
  [
    'a token given by hand changes the outcome of a connected flow',
    [started, polled(5_100), token, saved, superseded],
    LAST_LINE,
  ],
])

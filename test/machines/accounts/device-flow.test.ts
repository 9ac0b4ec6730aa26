/** The device flow machine, for all orders of events from the code host and the dashboard. */
import { type DeviceFlowEvent, deviceFlowMachine } from '../../../actors/accounts/device-flow.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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

const stories: readonly Story<DeviceFlowEvent>[] = [
  {
    title: 'a code is shown, the code host is polled after its interval, and the token is saved',
    input,
    events: [started, polled(5_100), pending, polled(10_100), token, saved, polled(15_000)],
  },
  {
    title: 'a poll before the interval has passed is answered without a call',
    input,
    events: [polled(0), started, polled(5_099), polled(5_100), pending, polled(5_200)],
  },
  {
    title: 'polls during a request to the code host or during the save share its result',
    input,
    events: [started, polled(5_100), polled(99_000), token, polled(99_000)],
  },
  {
    title: 'after slow_down the interval grows, counted from the last request, and never shrinks',
    input,
    events: [started, polled(5_100), slowDown, polled(15_000), polled(15_100), faster],
  },
  {
    title: 'an unreachable code host is polled again later, with a longer interval',
    input,
    events: [started, polled(5_100), unanswered],
    onlyLastLine: true,
  },
  {
    title: 'a denied code fails the flow, and later polls receive the reason',
    input,
    events: [started, polled(5_100), codeRejected, polled(6_000)],
  },
  {
    title: 'a code that is not entered expires',
    input,
    events: [started, expiry],
    onlyLastLine: true,
  },
  {
    title: 'a code that expires during a request fails when the reply holds no token',
    input,
    events: [started, polled(5_100), expiry, pending],
    onlyLastLine: true,
  },
  {
    title: 'a code that expires during a request fails when the request fails',
    input,
    events: [started, polled(5_100), expiry, unanswered],
    onlyLastLine: true,
  },
  {
    title: 'a code that expires during a request succeeds when the reply holds a token',
    input,
    events: [started, polled(5_100), expiry, token],
    onlyLastLine: true,
  },
  {
    title: 'a token that does not work is not saved',
    input,
    events: [started, polled(5_100), token, notSaved],
    onlyLastLine: true,
  },
  {
    title: 'a failed start is reported, and the flow is forgotten',
    input,
    events: [notStarted],
    onlyLastLine: true,
  },
  {
    title: 'a newer flow replaces it in every state',
    input,
    events: [started, polled(5_100), replaced],
    onlyLastLine: true,
  },
  {
    title: 'a token given by hand fails a waiting flow',
    input,
    events: [started, superseded],
    onlyLastLine: true,
  },
  {
    title: 'a token given by hand fails a polling flow, and the reply is ignored',
    input,
    events: [started, polled(5_100), superseded, token],
    onlyLastLine: true,
  },
  {
    title: 'a token given by hand changes the outcome of a connected flow',
    input,
    events: [started, polled(5_100), token, saved, superseded],
    onlyLastLine: true,
  },
]

testTrails(deviceFlowMachine, stories)

/** The device flow: what becomes of it, whatever the code host and the dashboard do. */
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
    title: 'a code is shown, the code host asked once its interval has passed, the token saved',
    input,
    events: [started, polled(5_100), pending, polled(10_100), token, saved, polled(15_000)],
  },
  {
    title: 'a poll before the interval has passed is answered without a call',
    input,
    events: [polled(0), started, polled(5_099), polled(5_100), pending, polled(5_200)],
  },
  {
    title: 'polls that come while the code host is being asked, or the token saved, share what comes of it',
    input,
    events: [started, polled(5_100), polled(99_000), token, polled(99_000)],
  },
  {
    title: 'told to slow down it does, from the last question on, and never speeds up again',
    input,
    events: [started, polled(5_100), slowDown, polled(15_000), polled(15_100), faster],
  },
  {
    title: 'a code host that can’t be asked just now is asked again later, and less often',
    input,
    events: [started, polled(5_100), unanswered],
    onlyLastLine: true,
  },
  {
    title: 'a code that was denied is over, and whoever polls later hears why',
    input,
    events: [started, polled(5_100), codeRejected, polled(6_000)],
  },
  {
    title: 'a code that nobody enters runs out',
    input,
    events: [started, expiry],
    onlyLastLine: true,
  },
  {
    title: 'a code that runs out while the code host is asked is over when that does not answer with a token',
    input,
    events: [started, polled(5_100), expiry, pending],
    onlyLastLine: true,
  },
  {
    title: 'or can’t be asked',
    input,
    events: [started, polled(5_100), expiry, unanswered],
    onlyLastLine: true,
  },
  {
    title: 'and is good when it does',
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
    title: 'where no code is given, whoever asked is told, and nothing remains',
    input,
    events: [notStarted],
    onlyLastLine: true,
  },
  {
    title: 'a newer flow takes its place, whatever it is doing',
    input,
    events: [started, polled(5_100), replaced],
    onlyLastLine: true,
  },
  {
    title: 'a token given by hand meanwhile ends it while it waits',
    input,
    events: [started, superseded],
    onlyLastLine: true,
  },
  {
    title: 'and while it asks; what the code host then answers does not count',
    input,
    events: [started, polled(5_100), superseded, token],
    onlyLastLine: true,
  },
  {
    title: 'and what it had connected is not said to be connected any more',
    input,
    events: [started, polled(5_100), token, saved, superseded],
    onlyLastLine: true,
  },
]

testTrails(deviceFlowMachine, stories)

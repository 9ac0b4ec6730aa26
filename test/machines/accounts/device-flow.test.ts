/** The device flow: what becomes of it, whatever the code host and the dashboard do. */
import { type DeviceFlowEvent, deviceFlowMachine } from '../../../actors/accounts/device-flow.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const T0 = Date.UTC(2026, 0, 1)

const started: DeviceFlowEvent = {
  type: 'started',
  now: 100,
  intervalMs: 5_000,
  expiresAt: T0 + 900_000,
}
const notStarted: DeviceFlowEvent = { type: 'not started' }
const polled = (now: number): DeviceFlowEvent => ({ type: 'polled', handle: 1, now })
const pending: DeviceFlowEvent = { type: 'still pending', intervalMs: null, isTooFast: false }
const slowDown: DeviceFlowEvent = { type: 'still pending', intervalMs: 10_000, isTooFast: false }
const faster: DeviceFlowEvent = { type: 'still pending', intervalMs: 1_000, isTooFast: false }
const unanswered: DeviceFlowEvent = { type: 'unanswered' }
const died: DeviceFlowEvent = { type: 'code died', reason: 'denied' }
const token: DeviceFlowEvent = { type: 'token came' }
const saved: DeviceFlowEvent = { type: 'saved', detail: 'octocat' }
const notSaved: DeviceFlowEvent = { type: 'not saved', reason: 'bad token' }
const replaced: DeviceFlowEvent = { type: 'replaced' }
const superseded: DeviceFlowEvent = { type: 'superseded', reason: 'changed' }
const expiry: DeviceFlowEvent = { type: 'deadline.expiry' }

const input = { flow: 'device-1' }
const BEGUN = [
  'start → starting : connect.start device',
  'started → waiting : connect.show device, expiry at 2026-01-01T00:15:00.000Z, intervalMs=5000, askAgainAt=5100',
]

const stories: readonly Story<DeviceFlowEvent>[] = [
  {
    title: 'a code is shown, the code host asked once its interval has passed, the token saved',
    input,
    events: [started, polled(5_100), pending, polled(10_100), token, saved, polled(15_000)],
    trail: [
      ...BEGUN,
      'polled → asking : connect.ask device, askAgainAt=10100',
      'still pending → waiting : connect.say pending',
      'polled → asking : connect.ask device, askAgainAt=15100',
      'token came → saving : connect.save device, no expiry',
      'saved → connected : connect.say connected, word=octocat',
      'polled → connected : connect.say connected',
    ],
  },
  {
    title: 'a poll before the interval has passed is answered without a call',
    input,
    events: [polled(0), started, polled(5_099), polled(5_100), pending, polled(5_200)],
    trail: [
      'start → starting : connect.start device',
      'polled → starting : connect.say pending',
      ...BEGUN.slice(1),
      'polled → waiting : connect.say pending',
      'polled → asking : connect.ask device, askAgainAt=10100',
      'still pending → waiting : connect.say pending',
      'polled → waiting : connect.say pending',
    ],
  },
  {
    title: 'polls that come while the code host is being asked, or the token saved, share what comes of it',
    input,
    events: [started, polled(5_100), polled(99_000), token, polled(99_000)],
    trail: [
      ...BEGUN,
      'polled → asking : connect.ask device, askAgainAt=10100',
      'polled → asking',
      'token came → saving : connect.save device, no expiry',
      'polled → saving',
    ],
  },
  {
    title: 'told to slow down it does, from the last question on, and never speeds up again',
    input,
    events: [started, polled(5_100), slowDown, polled(15_000), polled(15_100), faster],
    trail: [
      ...BEGUN,
      'polled → asking : connect.ask device, askAgainAt=10100',
      'still pending → waiting : connect.say pending, intervalMs=10000, askAgainAt=15100',
      'polled → waiting : connect.say pending',
      'polled → asking : connect.ask device, askAgainAt=25100',
      'still pending → waiting : connect.say pending',
    ],
  },
  {
    title: 'a code host that can’t be asked just now is asked again later, and less often',
    input,
    events: [started, polled(5_100), unanswered],
    ends: 'unanswered → waiting : connect.say pending, intervalMs=10000, askAgainAt=15100',
  },
  {
    title: 'a code that was denied is over, and whoever polls later hears why',
    input,
    events: [started, polled(5_100), died, polled(6_000)],
    trail: [
      ...BEGUN,
      'polled → asking : connect.ask device, askAgainAt=10100',
      'code died → over : connect.say over (denied), no expiry, word=denied',
      'polled → over : connect.say over (denied)',
    ],
  },
  {
    title: 'a code that nobody enters runs out',
    input,
    events: [started, expiry],
    ends: 'deadline.expiry → over : connect.say over (the code was not entered in time; connect the code host again), no expiry, word=the code was not entered in time; connect the code host again',
  },
  {
    title: 'a code that runs out while the code host is asked is over when that does not answer with a token',
    input,
    events: [started, polled(5_100), expiry, pending],
    ends: 'still pending → over : connect.say over (the code was not entered in time; connect the code host again), no expiry, word=the code was not entered in time; connect the code host again',
  },
  {
    title: 'or can’t be asked',
    input,
    events: [started, polled(5_100), expiry, unanswered],
    ends: 'unanswered → over : connect.say over (the code was not entered in time; connect the code host again), no expiry, word=the code was not entered in time; connect the code host again',
  },
  {
    title: 'and is good when it does',
    input,
    events: [started, polled(5_100), expiry, token],
    ends: 'token came → saving : connect.save device, no expiry',
  },
  {
    title: 'a token that does not work is not saved',
    input,
    events: [started, polled(5_100), token, notSaved],
    ends: 'not saved → over : connect.say over (bad token), no expiry, word=bad token',
  },
  {
    title: 'where no code is given, whoever asked is told, and nothing remains',
    input,
    events: [notStarted],
    ends: 'not started → gone : connect.show device, connect.forget device, over',
  },
  {
    title: 'a newer flow takes its place, whatever it is doing',
    input,
    events: [started, polled(5_100), replaced],
    ends: 'replaced → gone : connect.forget device, over',
  },
  {
    title: 'a token given by hand meanwhile ends it while it waits',
    input,
    events: [started, superseded],
    ends: 'superseded → over : connect.say over (changed), no expiry, word=changed',
  },
  {
    title: 'and while it asks; what the code host then answers does not count',
    input,
    events: [started, polled(5_100), superseded, token],
    ends: 'token came → over',
  },
  {
    title: 'and what it had connected is not said to be connected any more',
    input,
    events: [started, polled(5_100), token, saved, superseded],
    ends: 'superseded → over : connect.say over (changed), no expiry, word=changed',
  },
]

tell(deviceFlowMachine, stories)

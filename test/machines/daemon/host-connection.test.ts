/** Trails of the host connection machine. */
import {
  type HostConnectionEvent,
  hostConnectionMachine,
} from '../../../actors/daemon/host-connection.machine.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

const go: HostConnectionEvent = { type: 'connect requested' }
const opened: HostConnectionEvent = { type: 'opened' }
const welcomed: HostConnectionEvent = { type: 'registered' }
const lost: HostConnectionEvent = { type: 'lost', reason: 'the network is gone' }
const putOff: HostConnectionEvent = { type: 'update needed', reason: 'malformed' }
const formRefused: HostConnectionEvent = { type: 'form refused' }
const over: HostConnectionEvent = { type: 'wait over' }
const refused: HostConnectionEvent = {
  type: 'refused for good',
  end: { is: 'revoked', detail: 'by a person' },
}
const hangUp: HostConnectionEvent = { type: 'disconnect requested' }

const places: Readonly<Record<string, readonly HostConnectionEvent[]>> = {
  dialling: [go],
  registering: [go, opened],
  online: [go, opened, welcomed],
}

trailTests<HostConnectionEvent>(hostConnectionMachine, {}, [
  ['online again after a lost connection', [go, opened, welcomed, lost, over, opened, welcomed]],
  ['rejected until an update, and tried again later', [go, opened, welcomed, putOff, over]],
  [
    'registered with a host of an earlier version at the second attempt',
    [go, opened, formRefused, opened, welcomed],
  ],
  ...inEach(places, [
    ['lost', [lost], LAST_LINE],
    ['update needed', [putOff], LAST_LINE],
    ['refused for good', [refused], LAST_LINE],
    ['disconnected', [hangUp], LAST_LINE],
  ]),
  ['disconnected before connecting', [hangUp]],
  ['disconnected while waiting', [go, lost, hangUp]],
  ['refused for good while waiting', [go, lost, refused]],
  ['disconnected while waiting for an update', [go, putOff, hangUp]],
  ['refused for good while waiting for an update', [go, putOff, refused]],
])

/** What the link to the host does, one story for each way. */
import {
  type HostConnectionEvent,
  hostConnectionMachine,
} from '../../../actors/daemon/host-connection.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const go: HostConnectionEvent = { type: 'connect requested' }
const opened: HostConnectionEvent = { type: 'opened' }
const welcomed: HostConnectionEvent = { type: 'registered' }
const lost: HostConnectionEvent = { type: 'lost', reason: 'the network is gone' }
const putOff: HostConnectionEvent = { type: 'update needed', reason: 'malformed' }
const over: HostConnectionEvent = { type: 'wait over' }
const refused: HostConnectionEvent = {
  type: 'refused for good',
  end: { is: 'revoked', detail: 'by a person' },
}
const hangUp: HostConnectionEvent = { type: 'disconnect requested' }

const places: readonly (readonly [name: string, way: readonly HostConnectionEvent[]])[] = [
  ['dialling', [go]],
  ['registering', [go, opened]],
  ['online', [go, opened, welcomed]],
]

const stories: readonly Story<HostConnectionEvent>[] = [
  {
    title: 'online, and back after a loss',
    input: {},
    events: [go, opened, welcomed, lost, over, opened, welcomed],
  },
  {
    title: 'put off, and tried again later',
    input: {},
    events: [go, opened, welcomed, putOff, over],
  },
  ...places.flatMap(([name, way]): Story<HostConnectionEvent>[] => [
    {
      title: `lost while ${name}`,
      input: {},
      events: [...way, lost],
      onlyLastLine: true,
    },
    {
      title: `put off while ${name}`,
      input: {},
      events: [...way, putOff],
      onlyLastLine: true,
    },
    {
      title: `refused while ${name}`,
      input: {},
      events: [...way, refused],
      onlyLastLine: true,
    },
    {
      title: `hung up while ${name}`,
      input: {},
      events: [...way, hangUp],
      onlyLastLine: true,
    },
  ]),
  {
    title: 'hung up before it began',
    input: {},
    events: [hangUp],
  },
  {
    title: 'hung up while waiting',
    input: {},
    events: [go, lost, hangUp],
  },
  {
    title: 'refused while waiting',
    input: {},
    events: [go, lost, refused],
  },
  {
    title: 'hung up while shunned',
    input: {},
    events: [go, putOff, hangUp],
  },
  {
    title: 'refused while shunned',
    input: {},
    events: [go, putOff, refused],
  },
]

testTrails(hostConnectionMachine, stories)

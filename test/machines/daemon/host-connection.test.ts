/** What the link to the host does, one story for each way. */
import { type LinkEvent, linkMachine } from '../../../actors/daemon/host-connection.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const go: LinkEvent = { type: 'go' }
const opened: LinkEvent = { type: 'opened' }
const welcomed: LinkEvent = { type: 'welcomed' }
const lost: LinkEvent = { type: 'lost', reason: 'the network is gone' }
const putOff: LinkEvent = { type: 'put off', reason: 'malformed' }
const over: LinkEvent = { type: 'wait over' }
const refused: LinkEvent = { type: 'refused', end: { is: 'revoked', detail: 'by a person' } }
const hangUp: LinkEvent = { type: 'hang up' }

const places: readonly (readonly [name: string, way: readonly LinkEvent[]])[] = [
  ['dialling', [go]],
  ['registering', [go, opened]],
  ['online', [go, opened, welcomed]],
]

const stories: readonly Story<LinkEvent>[] = [
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
  ...places.flatMap(([name, way]): Story<LinkEvent>[] => [
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

testTrails(linkMachine, stories)

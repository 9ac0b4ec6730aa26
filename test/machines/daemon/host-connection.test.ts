/** What the link to the host does, one story for each way. */
import { type LinkEvent, linkMachine } from '../../../actors/daemon/host-connection.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

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
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'opened → registering : link.register',
      'welcomed → online : link.beat',
      'lost → waiting : link.wait, failures=1, trouble=the network is gone',
      'wait over → dialling : link.dial',
      'opened → registering : link.register',
      'welcomed → online : link.beat, failures=0, trouble=null',
    ],
  },
  {
    title: 'put off, and tried again later',
    input: {},
    events: [go, opened, welcomed, putOff, over],
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'opened → registering : link.register',
      'welcomed → online : link.beat',
      'put off → shunned : link.wait long, failures=1, trouble=malformed',
      'wait over → dialling : link.dial',
    ],
  },
  ...places.flatMap(([name, way]): Story<LinkEvent>[] => [
    {
      title: `lost while ${name}`,
      input: {},
      events: [...way, lost],
      ends: 'lost → waiting : link.wait, failures=1, trouble=the network is gone',
    },
    {
      title: `put off while ${name}`,
      input: {},
      events: [...way, putOff],
      ends: 'put off → shunned : link.wait long, failures=1, trouble=malformed',
    },
    {
      title: `refused while ${name}`,
      input: {},
      events: [...way, refused],
      ends: 'refused → ended : link.hang up, tell daemon daemon link ended, over, end={"is":"revoked","detail":"by a person"}',
    },
    {
      title: `hung up while ${name}`,
      input: {},
      events: [...way, hangUp],
      ends: 'hang up → ended : link.hang up, over',
    },
  ]),
  {
    title: 'hung up before it began',
    input: {},
    events: [hangUp],
    trail: ['start → idle', 'hang up → ended : link.hang up, over'],
  },
  {
    title: 'hung up while waiting',
    input: {},
    events: [go, lost, hangUp],
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'lost → waiting : link.wait, failures=1, trouble=the network is gone',
      'hang up → ended : link.hang up, over',
    ],
  },
  {
    title: 'refused while waiting',
    input: {},
    events: [go, lost, refused],
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'lost → waiting : link.wait, failures=1, trouble=the network is gone',
      'refused → ended : link.hang up, tell daemon daemon link ended, over, end={"is":"revoked","detail":"by a person"}',
    ],
  },
  {
    title: 'hung up while shunned',
    input: {},
    events: [go, putOff, hangUp],
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'put off → shunned : link.wait long, failures=1, trouble=malformed',
      'hang up → ended : link.hang up, over',
    ],
  },
  {
    title: 'refused while shunned',
    input: {},
    events: [go, putOff, refused],
    trail: [
      'start → idle',
      'go → dialling : link.dial',
      'put off → shunned : link.wait long, failures=1, trouble=malformed',
      'refused → ended : link.hang up, tell daemon daemon link ended, over, end={"is":"revoked","detail":"by a person"}',
    ],
  },
]

tell(linkMachine, stories)

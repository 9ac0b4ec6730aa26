/** Trails of the host connection machine. */
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
const formRefused: HostConnectionEvent = { type: 'form refused' }
const over: HostConnectionEvent = { type: 'wait over' }
const refused: HostConnectionEvent = {
  type: 'refused for good',
  end: { is: 'revoked', detail: 'by a person' },
}
const hangUp: HostConnectionEvent = { type: 'disconnect requested' }

const places: readonly (readonly [name: string, eventsBefore: readonly HostConnectionEvent[]])[] = [
  ['dialling', [go]],
  ['registering', [go, opened]],
  ['online', [go, opened, welcomed]],
]

const stories: readonly Story<HostConnectionEvent>[] = [
  {
    title: 'online again after a lost connection',
    input: {},
    events: [go, opened, welcomed, lost, over, opened, welcomed],
  },
  {
    title: 'rejected until an update, and tried again later',
    input: {},
    events: [go, opened, welcomed, putOff, over],
  },
  {
    title: 'registered with a host of an earlier version at the second attempt',
    input: {},
    events: [go, opened, formRefused, opened, welcomed],
  },
  ...places.flatMap(([name, eventsBefore]): Story<HostConnectionEvent>[] => [
    {
      title: `lost while ${name}`,
      input: {},
      events: [...eventsBefore, lost],
      onlyLastLine: true,
    },
    {
      title: `update needed while ${name}`,
      input: {},
      events: [...eventsBefore, putOff],
      onlyLastLine: true,
    },
    {
      title: `refused for good while ${name}`,
      input: {},
      events: [...eventsBefore, refused],
      onlyLastLine: true,
    },
    {
      title: `disconnected while ${name}`,
      input: {},
      events: [...eventsBefore, hangUp],
      onlyLastLine: true,
    },
  ]),
  {
    title: 'disconnected before connecting',
    input: {},
    events: [hangUp],
  },
  {
    title: 'disconnected while waiting',
    input: {},
    events: [go, lost, hangUp],
  },
  {
    title: 'refused for good while waiting',
    input: {},
    events: [go, lost, refused],
  },
  {
    title: 'disconnected while waiting for an update',
    input: {},
    events: [go, putOff, hangUp],
  },
  {
    title: 'refused for good while waiting for an update',
    input: {},
    events: [go, putOff, refused],
  },
]

testTrails(hostConnectionMachine, stories)

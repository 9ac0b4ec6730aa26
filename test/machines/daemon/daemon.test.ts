/** Trails of the daemon machine. */
import { type DaemonEvent, daemonMachine } from '../../../actors/daemon/daemon.machine.ts'
import type { DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const drain: DaemonEvent = { type: 'drain requested' }
const handBack: DaemonEvent = { type: 'hand back requested' }
const stop: DaemonEvent = { type: 'stop requested' }
const begun: DaemonEvent = { type: 'only run began' }
const broken: DaemonEvent = { type: 'fatal error', end: { is: 'broken', detail: 'an I/O error' } }
const late: DaemonEvent = { type: 'timed out' }
const flushed: DaemonEvent = { type: 'flushed' }
const nothing: DaemonEvent = { type: 'counted', running: 0, unacknowledged: 0 }
const unacknowledged: DaemonEvent = { type: 'counted', running: 0, unacknowledged: 1 }
const connectionEnded = (is: DaemonEnd['is']): DaemonEvent => ({
  type: 'host connection ended',
  end: { is, detail: `it is ${is}` },
})
const revoked = connectionEnded('revoked')
const misunderstood = connectionEnded('protocol')

const places: readonly (readonly [name: string, eventsBefore: readonly DaemonEvent[]])[] = [
  ['serving', []],
  ['draining', [drain]],
  ['reporting', [drain, unacknowledged]],
  ['handing back', [drain, late]],
  ['finishing', [begun]],
  ['reporting its only run', [begun, unacknowledged]],
]

const HAND_BACK_PLACES = new Set(['serving', 'draining', 'finishing', 'reporting its only run'])

const stories: readonly Story<DaemonEvent>[] = [
  {
    title: 'a drain without runs',
    input: {},
    events: [drain, nothing, flushed],
  },
  {
    title: 'one run that is acknowledged later than it is done',
    input: {},
    events: [begun, unacknowledged, nothing, flushed],
  },
  {
    title: 'one run that is not acknowledged',
    input: {},
    events: [begun, unacknowledged, late, flushed],
  },
  {
    title: 'one run that is acknowledged at once',
    input: {},
    events: [begun, nothing, flushed],
  },
  {
    title: 'one run that is done when the end is requested',
    input: {},
    events: [begun, unacknowledged, drain, nothing, flushed],
  },
  {
    title: 'one run and a request to end',
    input: {},
    events: [begun, drain, unacknowledged, late, flushed],
  },
  {
    title: 'no work for long',
    input: {},
    events: [{ type: 'idle for long' }, nothing, flushed],
  },
  {
    title: 'a drain that waits for acknowledgements',
    input: {},
    events: [drain, unacknowledged, nothing, flushed],
  },
  {
    title: 'a drain whose host does not come back',
    input: {},
    events: [drain, unacknowledged, late, late],
  },
  {
    title: 'a drain that takes too long',
    input: {},
    events: [drain, late, unacknowledged, flushed],
  },
  {
    title: 'a drain that takes too long with processes that cannot be killed',
    input: {},
    events: [drain, late, late, late, late],
  },
  ...places
    .filter(([name]) => HAND_BACK_PLACES.has(name))
    .map(
      ([name, eventsBefore]): Story<DaemonEvent> => ({
        title: `everything handed back while ${name}`,
        input: {},
        events: [...eventsBefore, handBack],
        onlyLastLine: true,
      }),
    ),
  {
    title: 'a hand back with only unacknowledged completions',
    input: {},
    events: [drain, unacknowledged, handBack],
    onlyLastLine: true,
  },
  {
    title: 'replaced by another daemon',
    input: {},
    events: [connectionEnded('replaced'), nothing, flushed],
  },
  ...places.flatMap(([name, eventsBefore]): Story<DaemonEvent>[] => [
    {
      title: `stopped while ${name}`,
      input: {},
      events: [...eventsBefore, stop],
      onlyLastLine: true,
    },
    {
      title: `fatal error while ${name}`,
      input: {},
      events: [...eventsBefore, broken],
      onlyLastLine: true,
    },
    {
      title: `revoked while ${name}`,
      input: {},
      events: [...eventsBefore, revoked],
      onlyLastLine: true,
    },
    {
      title: `rejected protocol while ${name}`,
      input: {},
      events: [...eventsBefore, misunderstood],
      onlyLastLine: true,
    },
  ]),
  {
    title: 'revoked, and the executions end',
    input: {},
    events: [revoked, nothing, flushed],
  },
  {
    title: 'revoked, and the executions do not end',
    input: {},
    events: [revoked, late],
  },
  {
    title: 'revoked, and then stopped',
    input: {},
    events: [revoked, stop],
  },
  {
    title: 'revoked, and then a fatal error',
    input: {},
    events: [revoked, broken],
  },
  {
    title: 'fatal errors while stopping',
    input: {},
    events: [stop, broken, nothing, broken],
  },
]

testTrails(daemonMachine, stories)

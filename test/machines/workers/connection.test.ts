/** What becomes of a line, from the first byte to the last. */
import { type ConnectionEvent, connectionMachine } from '../../../actors/workers/connection.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const input = { number: 7 }
const registered: ConnectionEvent = { type: 'registered', workerId: 'wk-1', at: '2026-03-01T08:00:00.000Z' }
const refused: ConnectionEvent = { type: 'refused', code: 'malformed', reason: '/type: is missing' }
const gone: ConnectionEvent = { type: 'gone' }

const stories: readonly Story<ConnectionEvent>[] = [
  {
    title: 'a line that says nothing acceptable is told so, and is over',
    input,
    events: [refused, gone],
    trail: ['start → awaiting', 'refused → closed : fleet.reject (/type: is missing), over', 'gone → closed'],
  },
  {
    title: 'one that goes before it has said who it is',
    input,
    events: [gone],
    trail: ['start → awaiting', 'gone → closed : over'],
  },
  {
    title: 'one that registers and goes',
    input,
    events: [registered, gone],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'gone → closed : over',
    ],
  },
  {
    title: 'a worker that falls silent is hung up on',
    input,
    events: [registered, { type: 'fell silent' }],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'fell silent → closed : fleet.hang up (nothing was heard for longer than the heartbeat timeout), over',
    ],
  },
  {
    title: 'a newer line of the same worker takes its place',
    input,
    events: [registered, { type: 'replaced' }],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'replaced → closed : fleet.reject (replaced by a newer connection), over',
    ],
  },
  {
    title: 'a revoked worker is told so',
    input,
    events: [registered, { type: 'revoked', reason: 'by a person' }],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'revoked → closed : fleet.say revoked (by a person), over',
    ],
  },
  {
    title: 'a registered worker that says something malformed is told so',
    input,
    events: [registered, refused],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'refused → closed : fleet.reject (/type: is missing), over',
    ],
  },
  {
    title: 'it registers once',
    input,
    events: [registered, { ...registered, workerId: 'wk-2' }],
    trail: [
      'start → awaiting',
      'registered → registered : workerId=wk-1, since=2026-03-01T08:00:00.000Z',
      'registered → registered',
    ],
  },
]

tell(connectionMachine, stories)

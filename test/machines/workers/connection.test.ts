/** What becomes of a line, from the first byte to the last. */
import { type ConnectionEvent, connectionMachine } from '../../../actors/workers/connection.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const input = { number: 7 }
const registered: ConnectionEvent = { type: 'registered', workerId: 'wk-1', at: '2026-03-01T08:00:00.000Z' }
const refused: ConnectionEvent = { type: 'refused', code: 'malformed', reason: '/type: is missing' }
const socketClosed: ConnectionEvent = { type: 'socket closed' }

const stories: readonly Story<ConnectionEvent>[] = [
  {
    title: 'a line that says nothing acceptable is told so, and is over',
    input,
    events: [refused, socketClosed],
  },
  {
    title: 'one that goes before it has said who it is',
    input,
    events: [socketClosed],
  },
  {
    title: 'one that registers and goes',
    input,
    events: [registered, socketClosed],
  },
  {
    title: 'a worker that falls silent is hung up on',
    input,
    events: [registered, { type: 'fell silent' }],
  },
  {
    title: 'a newer line of the same worker takes its place',
    input,
    events: [registered, { type: 'replaced' }],
  },
  {
    title: 'a revoked worker is told so',
    input,
    events: [registered, { type: 'revoked', reason: 'by a person' }],
  },
  {
    title: 'a registered worker that says something malformed is told so',
    input,
    events: [registered, refused],
  },
  {
    title: 'it registers once',
    input,
    events: [registered, { ...registered, workerId: 'wk-2' }],
  },
]

testTrails(connectionMachine, stories)

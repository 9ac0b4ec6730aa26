/** The connection machine: a worker's socket from its opening to its end. */
import { type ConnectionEvent, connectionMachine } from '../../../actors/workers/connection.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const input = { number: 7 }
const registered: ConnectionEvent = { type: 'registered', workerId: 'wk-1', at: '2026-03-01T08:00:00.000Z' }
const refused: ConnectionEvent = { type: 'refused', code: 'malformed', reason: '/type: is missing' }
const socketClosed: ConnectionEvent = { type: 'socket closed' }

const stories: readonly Story<ConnectionEvent>[] = [
  {
    title: 'a connection with an unacceptable first frame is rejected and closed',
    input,
    events: [refused, socketClosed],
  },
  {
    title: 'a connection that closes before it registered',
    input,
    events: [socketClosed],
  },
  {
    title: 'a connection that registers and closes',
    input,
    events: [registered, socketClosed],
  },
  {
    title: 'the connection of a silent worker is closed',
    input,
    events: [registered, { type: 'fell silent' }],
  },
  {
    title: 'a newer connection of the same worker replaces this one',
    input,
    events: [registered, { type: 'replaced' }],
  },
  {
    title: 'a revoked worker receives `revoked`',
    input,
    events: [registered, { type: 'revoked', reason: 'by a person' }],
  },
  {
    title: 'a registered worker that sends a malformed frame is rejected',
    input,
    events: [registered, refused],
  },
  {
    title: 'a second registration changes nothing',
    input,
    events: [registered, { ...registered, workerId: 'wk-2' }],
  },
]

testTrails(connectionMachine, stories)

/** The connection machine: a worker's socket from its opening to its end. */
import { type ConnectionEvent, connectionMachine } from '../../../actors/workers/connection.machine.ts'
import { trailTests } from '../trail-tests.ts'

const input = { number: 7 }
const registered: ConnectionEvent = { type: 'registered', workerId: 'wk-1', at: '2026-03-01T08:00:00.000Z' }
const refused: ConnectionEvent = { type: 'refused', code: 'malformed', reason: '/type: is missing' }
const socketClosed: ConnectionEvent = { type: 'socket closed' }

trailTests<ConnectionEvent>(connectionMachine, input, [
  ['a connection with an unacceptable first frame is rejected and closed', [refused, socketClosed]],
  ['a connection that closes before it registered', [socketClosed]],
  ['a connection that registers and closes', [registered, socketClosed]],
  ['the connection of a silent worker is closed', [registered, { type: 'fell silent' }]],
  ['a newer connection of the same worker replaces this one', [registered, { type: 'replaced' }]],
  ['a revoked worker receives `revoked`', [registered, { type: 'revoked', reason: 'by a person' }]],
  ['a registered worker that sends a malformed frame is rejected', [registered, refused]],
  ['a second registration changes nothing', [registered, { ...registered, workerId: 'wk-2' }]],
])

/** A socket of a worker whose frames take their turns. */
import { expect, test } from '@jest/globals'
import { BUG_MESSAGES } from '../../../actors/runtime/commit-loop.ts'
import { MonotonicTimers } from '../../../actors/runtime/monotonic-timers.ts'
import { FRAMES_TURN_MS_MAX, FrameTurns, RoutedSocket } from '../../../actors/workers/frame-turns.ts'
import type { WorkerConnection } from '../../../actors/workers/worker-connections.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

function openSocket() {
  const clock = new ManualClock()
  const log = createRecordingLog()
  const received: string[] = []
  const connection = { number: 1, isClosing: false, lastFrameAt: -1 } as WorkerConnection
  const routes = {
    receive(_: WorkerConnection, text: string) {
      if (text === 'bad') throw new Error('a bug')
      received.push(text)
      clock.work(FRAMES_TURN_MS_MAX)
    },
    refuseUnreadable: (_: WorkerConnection, reason: string) => void received.push(`unreadable: ${reason}`),
    onClosed: () => void received.push('closed'),
    frameBytesMax: () => 10,
  }
  const closeForRetry = (_: WorkerConnection, reason: string) => {
    received.push(`✕ ${reason}`)
    connection.isClosing = true
  }
  const context = {
    log,
    timers: new MonotonicTimers(
      clock,
      () => 0,
      () => {},
    ),
  }
  const turns = new FrameTurns(clock)
  const socket = new RoutedSocket(routes, connection, context, turns, { closeForRetry })
  return { clock, log, connection, received, socket }
}

test('an unreadable frame and the end of the connection stand behind the frames that wait', async () => {
  const { clock, received, socket } = openSocket()
  socket.onText('one')
  socket.onText('two')
  socket.onUnreadable('binary')
  socket.onClosed()
  expect(received).toEqual(['one'])
  await clock.advance(FRAMES_TURN_MS_MAX)
  expect(received).toEqual(['one', 'two', 'unreadable: binary', 'closed'])
})

test('a frame whose handling throws closes its connection, once', async () => {
  const { clock, log, received, socket } = openSocket()
  socket.onText('one')
  for (const text of ['bad', 'bad']) socket.onText(text)
  await clock.advance(0)
  expect(received).toEqual(['one', `✕ ${BUG_MESSAGES.inputFailed}`])
  expect(log.lines.map(({ message }) => message)).toEqual([
    BUG_MESSAGES.inputFailed,
    BUG_MESSAGES.inputFailed,
  ])
})

test('a frame counts from the moment it arrives, and a closing connection keeps none', async () => {
  const { clock, connection, received, socket } = openSocket()
  socket.onText('one')
  socket.onText('two')
  expect(connection.lastFrameAt).toBe(FRAMES_TURN_MS_MAX)
  connection.isClosing = true
  socket.onText('three')
  socket.onUnreadable('binary')
  await clock.advance(FRAMES_TURN_MS_MAX)
  expect(received).toEqual(['one', 'two'])
})

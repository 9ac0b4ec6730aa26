/** Tests of the pushes to dashboards: in order, a limited number in a turn, and a limited number that waits. */
import { expect, test } from '@jest/globals'
import {
  DashboardBroadcast,
  PUSH_TURN_BYTES_MAX,
  PUSH_WAITING_BYTES_MAX,
} from '../../../actors/dashboard/dashboard-broadcast.ts'
import type { OutgoingPush } from '../../../core/ports/connections.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

const TEXT_CHARS = 768
/** How many pushes of the test fit into a turn, and into the queue. */
const PER_TURN = PUSH_TURN_BYTES_MAX / 1_024
const WAITING = PUSH_WAITING_BYTES_MAX / 1_024

const pushOf = (text: string): OutgoingPush => ({
  type: 'run-event',
  runId: 'run-1',
  json: Buffer.from(text),
})

function open() {
  const turnEnds: (() => void)[] = []
  const broadcast = new DashboardBroadcast(createRecordingLog(), {
    endOfTick: (run) => void turnEnds.push(run),
  })
  const received: string[] = []
  broadcast.listen((push) => {
    if (push.type === 'run-event') received.push(Buffer.from(push.json).toString().trim())
  })
  let next = 0
  const send = (count: number) => {
    for (let n = 0; n < count; n++) broadcast.send(pushOf(String(next++).padEnd(TEXT_CHARS)))
  }
  const endTurn = () => {
    for (const end of turnEnds.splice(0)) end()
  }
  const expectInOrder = () => expect(received).toEqual(received.map((_, i) => String(i)))
  return { broadcast, received, send, endTurn, expectInOrder }
}

test('a few pushes are sent at once', () => {
  const { received, send, endTurn, broadcast } = open()
  for (let turn = 0; turn < 3; turn++) {
    send(PER_TURN)
    expect(received).toHaveLength((turn + 1) * PER_TURN)
    endTurn()
  }
  expect(broadcast.waitingCount).toBe(0)
})

test('many pushes are sent over several turns, and later ones wait behind them', () => {
  const { received, send, endTurn, expectInOrder, broadcast } = open()
  send(3 * PER_TURN)
  expect(received).toHaveLength(PER_TURN)
  endTurn()
  expect(received).toHaveLength(2 * PER_TURN)
  send(1)
  expect(broadcast.waitingCount).toBe(PER_TURN + 1)
  for (let turn = 0; turn < 3; turn++) endTurn()
  expect(received).toHaveLength(3 * PER_TURN + 1)
  expectInOrder()
})

test('the number of waiting pushes is limited: above it they are sent at once', () => {
  const { received, send, expectInOrder, broadcast } = open()
  send(PER_TURN + WAITING + 1)
  expect(broadcast.waitingCount).toBe(0)
  expect(received).toHaveLength(PER_TURN + WAITING + 1)
  expectInOrder()
})

test('whoever keeps states for later hears when nobody listens any more', () => {
  const broadcast = new DashboardBroadcast(createRecordingLog(), { endOfTick: () => {} })
  let dropped = 0
  broadcast.onUnwatched(() => {
    dropped += 1
  })
  const [leaveFirst, leaveSecond] = [broadcast.listen(() => {}), broadcast.listen(() => {})]
  leaveFirst()
  expect(dropped).toBe(0)
  leaveSecond()
  expect(dropped).toBe(1)
})

test('a listener that leaves while waiting pushes are sent gets no more of them', () => {
  const turnEnds: (() => void)[] = []
  const broadcast = new DashboardBroadcast(createRecordingLog(), {
    endOfTick: (run) => void turnEnds.push(run),
  })
  let received = 0
  const leave = broadcast.listen(() => {
    received += 1
    if (received === PER_TURN + 2) leave()
  })
  for (let n = 0; n < 3 * PER_TURN; n++) broadcast.send(pushOf('x'.repeat(TEXT_CHARS)))
  while (turnEnds.length > 0) for (const end of turnEnds.splice(0)) end()
  expect([received, broadcast.waitingCount]).toEqual([PER_TURN + 2, 0])
  // The limit of what waits is as it was.
  const counted: string[] = []
  broadcast.listen((push) => void counted.push(push.type))
  for (let n = 0; n < PER_TURN + WAITING; n++) broadcast.send(pushOf('x'.repeat(TEXT_CHARS)))
  expect(counted).toHaveLength(PER_TURN)
  broadcast.send(pushOf('x'.repeat(TEXT_CHARS)))
  expect(counted).toHaveLength(PER_TURN + WAITING + 1)
})

test('pushes that wait are not sent to a listener that comes after the last one has left', () => {
  const turnEnds: (() => void)[] = []
  const broadcast = new DashboardBroadcast(createRecordingLog(), {
    endOfTick: (run) => void turnEnds.push(run),
  })
  const leave = broadcast.listen(() => {})
  for (let n = 0; n < 3 * PER_TURN; n++) broadcast.send(pushOf('x'.repeat(TEXT_CHARS)))
  expect(broadcast.waitingCount).toBeGreaterThan(0)
  leave()
  expect(broadcast.waitingCount).toBe(0)
  broadcast.send(pushOf('nobody hears this'))
  let received = 0
  broadcast.listen(() => {
    received += 1
  })
  while (turnEnds.length > 0) for (const end of turnEnds.splice(0)) end()
  expect(received).toBe(0)
})

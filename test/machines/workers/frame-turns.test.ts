/** Frames that arrive together are handled in several turns, in their order. */
import { expect, test } from '@jest/globals'
import {
  FRAMES_TURN_MS_MAX,
  FrameTurns,
  WAITING_CHARS_MAX,
  WAITING_FRAME_CHARS,
} from '../../../actors/workers/frame-turns.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** Each frame takes a third of a turn. */
function createTurns() {
  const clock = new ManualClock()
  const turns = new FrameTurns(clock)
  const handled: string[] = []
  const receive = (name: string, chars = name.length) =>
    turns.run(chars, () => {
      handled.push(name)
      clock.work(FRAMES_TURN_MS_MAX / 3)
    })
  return { clock, turns, handled, receive }
}

test('frames are handled at once while the turn has time, and the others in later turns, in their order', async () => {
  const { clock, turns, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) receive(name)
  expect(handled.join('')).toBe('abc')
  expect(turns.waitingCount).toBe(5)
  await clock.settle()
  receive('i')
  expect(handled.join('')).toBe('abc')
  await clock.advance(0)
  expect(handled.join('')).toBe('abcdef')
  await clock.advance(FRAMES_TURN_MS_MAX)
  expect(handled.join('')).toBe('abcdefghi')
  expect(turns.waitingCount).toBe(0)
  expect(clock.timers).toBe(0)
})

test('each turn of the event loop has its own time', async () => {
  const { clock, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c']) receive(name)
  await clock.settle()
  receive('d')
  expect(handled.join('')).toBe('abcd')
})

test('what a frame adds stands behind those that wait', async () => {
  const { clock, turns, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c']) receive(name)
  turns.run(1, () => receive('later'))
  receive('d')
  await clock.advance(0)
  expect(handled).toEqual(['a', 'b', 'c', 'd', 'later'])
})

test('when too much waits, everything is handled at once, and each frame once', async () => {
  const { clock, turns, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c']) receive(name)
  turns.run(0, () => receive('end of the first'))
  receive('d', WAITING_CHARS_MAX - 3 * WAITING_FRAME_CHARS)
  expect(handled.join('')).toBe('abc')
  receive('e', 1)
  expect(handled).toEqual(['a', 'b', 'c', 'd', 'e', 'end of the first'])
  expect(turns.waitingCount).toBe(0)
  // The next ones are limited as before.
  receive('f', WAITING_CHARS_MAX - WAITING_FRAME_CHARS)
  expect(turns.waitingCount).toBe(1)
  await clock.advance(0)
  expect(handled.at(-1)).toBe('f')
  expect(clock.timers).toBe(0)
})

test('many frames without a text are too much as well', () => {
  const { turns, receive } = createTurns()
  for (const name of ['a', 'b', 'c']) receive(name)
  let most = 0
  for (let n = 0; n <= WAITING_CHARS_MAX / WAITING_FRAME_CHARS; n++) {
    turns.run(0, () => {})
    most = Math.max(most, turns.waitingCount)
  }
  expect(most).toBe(WAITING_CHARS_MAX / WAITING_FRAME_CHARS)
  expect(turns.waitingCount).toBe(0)
})

test('a stop while a frame is handled drops those behind it', async () => {
  const { clock, turns, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c']) receive(name)
  turns.run(0, () => turns.stop())
  for (const name of ['d', 'e']) receive(name)
  await clock.advance(0)
  expect(handled.join('')).toBe('abc')
  expect(turns.waitingCount).toBe(0)
})

test('a stop drops what waits', async () => {
  const { clock, turns, handled, receive } = createTurns()
  for (const name of ['a', 'b', 'c', 'd']) receive(name)
  turns.stop()
  await clock.advance(0)
  expect(handled.join('')).toBe('abc')
})

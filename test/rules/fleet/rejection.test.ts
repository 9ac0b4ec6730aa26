/** Tests of dispatch refusals: when a worker goes on hold, and for how long. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  holdEndsAt,
  holdReason,
  parseRejection,
  relevantRejections,
  WORKER_HOLD_MS,
  WORKER_HOLD_REJECTIONS,
  WORKER_HOLD_WINDOW_MS,
} from '../../../core/fleet/rejection.ts'

const MINUTE = 60_000
const NOW = Date.UTC(2026, 2, 1)
const past = (minutesAgo: number, kind = 'disk', detail = '200 MB free') => ({
  at: NOW - minutesAgo * MINUTE,
  class: kind,
  detail,
})

test.each([
  ['disk: 200 MB free', 'disk', '200 MB free'],
  ['Sandbox : bwrap: no such file', 'sandbox', 'bwrap: no such file'],
  ['busy', 'busy', ''],
  ['draining:', 'draining', ''],
  ['malformed: no branch', 'malformed', 'no branch'],
  ['the disk is full', 'other', 'the disk is full'],
  ['other: thing', 'other', 'other: thing'],
  ['disk:\u001b[2J full\nand more', 'disk', '[2J full and more'],
  ['', 'other', ''],
])('%j is %s, %j', (reason, kind, detail) => {
  expect(parseRejection(reason)).toEqual({ class: kind, detail })
})

test('three sandbox or disk refusals within five minutes put a worker on hold', () => {
  expect(holdReason([past(5), past(1, 'sandbox'), past(0)], NOW)).toBe(
    'refused 3 dispatches within 5 minutes, the last with "disk: 200 MB free"',
  )
  expect(holdReason([past(5), past(1), past(0, 'sandbox', '')], NOW)).toMatch(/"sandbox"$/)
  expect(holdReason([past(1), past(0)], NOW)).toBeUndefined()
  expect(holdReason([past(5.1), past(1), past(0)], NOW)).toBeUndefined()
  expect(holdReason([past(2), past(1), past(0, 'busy')], NOW)).toBeUndefined()
})

test('a hold ends ten minutes after the refusal that caused it', () => {
  const history = [past(4), past(3), past(2)]
  const end = NOW - 2 * MINUTE + WORKER_HOLD_MS
  expect(holdEndsAt(history, NOW)).toBe(end)
  expect(holdReason(history, end - 1)).toBeDefined()
  expect(holdReason(history, end)).toBeUndefined()
  expect(holdEndsAt(history, end)).toBeUndefined()
  expect(holdEndsAt([...history, past(-9)], NOW + 9 * MINUTE)).toBeUndefined()
})

const anyHistory = fc.array(
  fc
    .tuple(fc.integer({ min: -20, max: 40 }), fc.constantFrom('disk', 'sandbox', 'busy'))
    .map(([minutes, kind]) => past(minutes / 2, kind)),
  { maxLength: 12 },
)

test('a hold has three causes and an end, and dropping irrelevant refusals changes nothing', () => {
  fc.assert(
    fc.property(anyHistory, (history) => {
      const reason = holdReason(history, NOW)
      const end = holdEndsAt(history, NOW)
      expect(reason === undefined).toBe(end === undefined)
      if (end !== undefined) {
        const cause = end - WORKER_HOLD_MS
        const together = history.filter(
          (rejection) =>
            rejection.class !== 'busy' &&
            rejection.at <= cause &&
            rejection.at >= cause - WORKER_HOLD_WINDOW_MS,
        )
        expect(together.length).toBeGreaterThanOrEqual(WORKER_HOLD_REJECTIONS)
        expect(end).toBeGreaterThan(NOW)
      }
      const kept = relevantRejections(history, NOW)
      for (const later of [0, 1, 4, 9, 15]) {
        const then = NOW + later * MINUTE
        const known = history.filter(({ at }) => at <= NOW)
        expect(holdEndsAt(kept, then)).toBe(holdEndsAt(known, then))
      }
    }),
  )
})

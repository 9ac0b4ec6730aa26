/** Ages, clock times, and the times that people write. */
import { describe, expect, test } from '@jest/globals'
import {
  formatAge,
  formatAgeOf,
  formatClock,
  formatClockSeconds,
  formatInstant,
  localOffset,
  type Present,
  parseSince,
  parseTimeout,
} from '../../../../bin/output/times.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const at = (instant: string): number => Date.parse(instant)

/** Berlin, with the end of summer time on 25 October 2026. */
const offset = (ms: number): number => (ms < at('2026-10-25T01:00:00Z') ? 120 : 60)
const present: Present = { now: at('2026-11-22T14:32:00Z'), offset }

test.each([
  [400, '0s'],
  [12_900, '12s'],
  [3 * MINUTE + 20 * SECOND, '3m20s'],
  [5 * MINUTE, '5m00s'],
  [10 * MINUTE - 1, '9m59s'],
  [10 * MINUTE, '10m'],
  [26 * MINUTE + 59 * SECOND, '26m'],
  [HOUR - 1, '59m'],
  [65 * MINUTE, '1h05m'],
  [24 * HOUR - 1, '23h59m'],
  [76 * HOUR, '3d4h'],
  [-5, '0s'],
  [undefined, '-'],
  [Number.NaN, '-'],
])('an age of %s ms is %s', (ms, text) => {
  expect(formatAge(ms)).toBe(text)
})

test('the age of an instant counts from the present', () => {
  expect(formatAgeOf('2026-11-22T14:06:00.000Z', present.now)).toBe('26m')
  expect(formatAgeOf(undefined, present.now)).toBe('-')
})

test.each([
  ['2026-11-22T14:32:00Z', '15:32'],
  ['2026-11-22T23:00:00Z', 'tomorrow 00:00'],
  ['2026-11-23T08:00:00Z', 'tomorrow 09:00'],
  ['2026-11-21T22:59:00Z', 'yesterday 23:59'],
  ['2026-11-24T08:00:00Z', 'Nov 24 09:00'],
  ['2026-10-24T08:00:00Z', 'Oct 24 10:00'],
  ['2027-01-03T08:00:00Z', 'Jan 3 2027 09:00'],
])('%s is %s in Berlin', (instant, text) => {
  expect(formatClock(at(instant), present)).toBe(text)
})

test('logs have seconds, and output that is no terminal has instants', () => {
  expect(formatClockSeconds(at('2026-11-22T14:06:03.900Z'), offset)).toBe('15:06:03')
  expect(formatInstant(present.now)).toBe('2026-11-22T14:32:00.000Z')
})

test('the offset of this machine is what its clock shows', () => {
  const local = new Date(present.now)
  expect(formatClockSeconds(present.now, localOffset)).toBe(local.toTimeString().slice(0, 8))
})

describe('--since', () => {
  test.each([
    ['90s', '2026-11-22T14:30:30.000Z'],
    ['30m', '2026-11-22T14:02:00.000Z'],
    ['3d', '2026-11-19T14:32:00.000Z'],
    ['1h05m', '2026-11-22T13:27:00.000Z'],
    ['2026-11-21', '2026-11-20T23:00:00.000Z'],
    ['2026-10-24', '2026-10-23T22:00:00.000Z'],
    ['2026-10-25T04:00', '2026-10-25T03:00:00.000Z'],
    ['2026-11-22T15:00', '2026-11-22T14:00:00.000Z'],
    ['2026-11-22 15:00:30', '2026-11-22T14:00:30.000Z'],
    ['2026-11-22T14:00:00.000Z', '2026-11-22T14:00:00.000Z'],
    ['2026-11-22T14:00:00-05:00', undefined],
    ['2026-11-22T14:00:00+05:30', '2026-11-22T08:30:00.000Z'],
  ])('%s means %s', (text, instant) => {
    const since = parseSince(text, '--since', present)
    expect(since.ok ? formatInstant(since.value) : undefined).toBe(instant)
  })

  test.each([
    [
      'yesterday',
      '--since yesterday is no time; write it like 90s, 30m, 3d, 2026-11-22 or 2026-11-22T14:00:00Z',
    ],
    ['', '--since is empty; write it like 90s, 30m, 3d, 2026-11-22 or 2026-11-22T14:00:00Z'],
    ['2026-02-30', expect.stringMatching(/^--since 2026-02-30 is no time/)],
    ['2026-13-01', expect.stringMatching(/is no time/)],
    ['5', expect.stringMatching(/is no time/)],
    ['2026-11-23', '--since 2026-11-23 lies in the future'],
  ])('%j is refused', (text, message) => {
    expect(parseSince(text, '--since', present)).toMatchObject({
      ok: false,
      refusal: { kind: 'invalid', message },
    })
  })
})

describe('--timeout', () => {
  test.each([
    ['90s', 90 * SECOND],
    ['1h', HOUR],
    ['2026-11-22T15:33', MINUTE],
    ['2026-11-22T14:33:00Z', MINUTE],
  ])('%s waits %i ms', (text, ms) => {
    expect(parseTimeout(text, '--timeout', present)).toEqual({ ok: true, value: ms })
  })

  test.each([
    ['soon', '--timeout soon is no time; write it like 90s, 30m, 3d, 2026-11-22 or 2026-11-22T14:00:00Z'],
    ['2026-11-22', '--timeout 2026-11-22 lies in the past'],
    // Node ends a longer timer at once.
    ['25d', '--timeout 25d is longer than 24d0h'],
    ['2027-11-22', '--timeout 2027-11-22 is longer than 24d0h'],
  ])('%s is refused', (text, message) => {
    expect(parseTimeout(text, '--timeout', present)).toMatchObject({ refusal: { message } })
  })
})

/** Durations, instants, money and sizes as the pages write them. */
import { describe, expect, test } from '@jest/globals'
import { formatCount, formatShare, formatTokens } from '../../../web/text/amounts.ts'
import { decodeOrKeep } from '../../../web/text/decode.ts'
import { formatDuration, formatInstant, formatShortAge } from '../../../web/text/times.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

describe('durations', () => {
  test.each([
    [undefined, '–'],
    [-5, '0 s'],
    [22_900, '22 s'],
    [4 * MINUTE + 5 * SECOND, '4 m 05 s'],
    [HOUR + 9 * MINUTE, '1 h 09 m'],
    [6 * DAY + 4 * HOUR, '6 d 4 h'],
  ])('%p is %s', (ms, text) => expect(formatDuration(ms)).toBe(text))

  test.each([
    [59 * SECOND, '59 s'],
    [18 * MINUTE + 30 * SECOND, '18 m'],
    [HOUR + 9 * MINUTE, '1 h 09 m'],
    [2 * DAY + HOUR, '2 d'],
  ])('%p ago is %s', (ms, text) => expect(formatShortAge(ms)).toBe(text))
})

test('instants name the day only when it is another', () => {
  const now = new Date(2026, 10, 20, 15, 0).getTime()
  expect(formatInstant(now - HOUR, now)).toBe('14:00')
  expect(formatInstant(now - 2 * DAY, now)).toBe('Wed 15:00')
  expect(formatInstant(now - 11 * DAY, now)).toBe('9 Nov')
  expect(formatInstant(now - 400 * DAY, now)).toBe('16 Oct 2025')
})

describe('amounts', () => {
  test('a minus is a minus', () => {
    expect(formatCount(-12)).toBe('−12')
  })

  test.each([
    [812, '812'],
    [38_400, '38.4 k'],
    [1_210_000, '1.21 M'],
    [184_000, '184 k'],
    [999_600, '1.00 M'],
  ])('%p tokens are %s', (count, text) => expect(formatTokens(count)).toBe(text))

  test('shares are whole', () => expect(formatShare(0.857)).toBe('86%'))
})

test.each([
  ['repos.a%2Fb.setup', 'repos.a/b.setup'],
  ['100%', '100%'],
])('the part %s of an address is %s', (part, text) => expect(decodeOrKeep(part)).toBe(text))

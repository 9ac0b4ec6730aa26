/** Tests of the tracker's client: what replaces it, and when its token is refreshed. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import {
  type IssuedTokens,
  identifyTracker,
  isTokenExpired,
  isTokenValid,
  nextRefreshAt,
  refreshAt,
  refreshRetryMs,
  settleTokens,
} from '../../../core/tickets/tracker-token.ts'
import { createConfig } from '../../support/sample-configs.ts'

const LINEAR = {
  driver: 'linear',
  apiKey: 'a',
  refreshToken: 'r',
  tokenExpiresAt: '2026-01-01T01:00:00.000Z',
}
const configWith = (tracker: object, more: object = {}) =>
  createConfig({ tracker: { ...LINEAR, ...tracker }, ...more }).effective
const trackerWith = (more: object = {}) => configWith(more).tracker

const MINUTE = 60_000
const EXPIRY = Date.parse(LINEAR.tokenExpiresAt)

test.each([
  ['another interval', { pollSeconds: 77 }, ['settings']],
  ['another key', { apiKey: 'b' }, ['credential']],
  ['another refresh token', { refreshToken: 's' }, ['credential']],
  ['another expiry', { tokenExpiresAt: '2026-01-01T02:00:00.000Z' }, ['credential']],
  ['another address', { apiUrl: 'https://tracker.example' }, ['settings', 'place']],
  ['another folder', { driver: 'local', path: '/elsewhere' }, ['settings', 'place']],
  ['other target states', { startedState: 'Doing', reviewState: 'Review', doneState: 'Done' }, []],
  ['other eligible tickets', { eligible: { labels: ['x'] }, whenTicketLeaves: 'stop' }, []],
])('%s changes the identity of a tracker in: %#', (_, more, changed) => {
  const [before, after] = [identifyTracker(configWith({})), identifyTracker(configWith(more))]
  const names = ['settings', 'credential', 'place'] as const
  expect(names.filter((name) => before[name] !== after[name])).toEqual(changed)
})

test('where issues are tickets, a target state is one of the settings', () => {
  const issues = { driver: 'github', apiKey: 'a' }
  const [before, after] = [issues, { ...issues, startedState: 'Doing' }].map((tracker) =>
    identifyTracker(configWith(tracker)),
  )
  expect(after?.settings).not.toBe(before?.settings)
  expect(after?.place).toBe(before?.place)
})

test('a setting that one driver alone has is one of the settings, and of the place', () => {
  const config = configWith({})
  const [before, after] = ['a', 'b'].map((board) =>
    identifyTracker({ ...config, tracker: Object.assign({ board }, config.tracker) }),
  )
  expect(after?.settings).not.toBe(before?.settings)
  expect(after?.place).not.toBe(before?.place)
})

describe('a token', () => {
  test.each([
    ['is refreshed five minutes before it expires', {}, EXPIRY - 5 * MINUTE],
    ['that does not expire is not refreshed', { tokenExpiresAt: undefined }, null],
    ['that cannot be refreshed is not refreshed', { refreshToken: '' }, null],
  ])('%s', (_, more, at) => expect(refreshAt(trackerWith(more))).toBe(at))

  test.each([
    ['an hour', 60 * MINUTE, EXPIRY - 5 * MINUTE],
    ['four minutes', 4 * MINUTE, EXPIRY - 2 * MINUTE],
    ['two seconds', 2_000, EXPIRY - 2_000 + 5_000],
    ['no time', -MINUTE, EXPIRY + MINUTE + 5_000],
  ])('that was just issued for %s is refreshed in time, and not in a loop', (_, lifetime, at) => {
    expect(nextRefreshAt(trackerWith(), EXPIRY - lifetime)).toBe(at)
  })

  test.each([
    ['before its expiry', trackerWith(), EXPIRY - 1, 0, false],
    ['at its expiry', trackerWith(), EXPIRY, 5_000, true],
    ['right after it was issued', trackerWith(), EXPIRY, 4_999, false],
    ['when it does not expire', trackerWith({ tokenExpiresAt: undefined }), EXPIRY, 5_000, false],
    ['when there is none', trackerWith({ apiKey: undefined }), EXPIRY, 5_000, false],
  ])('has expired or not: %s', (_, tracker, now, issuedAgoMs, expired) => {
    expect(isTokenExpired(tracker, now, issuedAgoMs)).toBe(expired)
  })

  test('is known to be valid until its expiry, if it has one', () => {
    expect([EXPIRY - 1, EXPIRY].map((now) => isTokenValid(trackerWith(), now))).toEqual([true, false])
    expect(isTokenValid(trackerWith({ tokenExpiresAt: undefined }), 0)).toBe(false)
  })
})

test('a failed refresh is retried after five seconds, and later every five minutes', () => {
  expect([1, 2, 20].map((failures) => refreshRetryMs(failures, 0.999_999))).toEqual([5_000, 10_000, 300_000])
})

test.each([
  ['is saved', yes(undefined), 'settled'],
  ['is not wanted any more', no('conflict', 'another account'), 'settled'],
  ['cannot be saved', no('unavailable', 'the disk is full'), 'unsaved'],
  ['is replaced by a person', undefined, 'settled'],
] as const)('a new pair that %s becomes %#', (_, saved, state) => {
  const issued: IssuedTokens = { pair: { accessToken: 'b' }, usedRefreshToken: 'r', at: 1, state: 'saving' }
  expect(settleTokens(issued, saved)).toEqual({ ...issued, state })
  expect(settleTokens(undefined, saved)).toBeUndefined()
})

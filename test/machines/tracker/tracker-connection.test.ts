/** The tracker connection machine: when a token is refreshed, when that is retried, and when a person is needed. */
import {
  type TrackerConnectionEvent,
  trackerConnectionMachine,
} from '../../../actors/tracker/tracker-connection.machine.ts'
import { LAST_LINE, trailTests } from '../trail-tests.ts'

const byKey: TrackerConnectionEvent = {
  type: 'configured',
  pollMs: 1_000,
  refreshable: false,
  refreshAt: null,
  isExpired: false,
}
const byToken: TrackerConnectionEvent = {
  type: 'configured',
  pollMs: 1_000,
  refreshable: true,
  refreshAt: 50,
  isExpired: false,
}
const byOldKey: TrackerConnectionEvent = { ...byKey, isExpired: true }
const byOldToken: TrackerConnectionEvent = { ...byToken, isExpired: true }
const expired: TrackerConnectionEvent = { type: 'expired' }
const unconfigured: TrackerConnectionEvent = { type: 'unconfigured' }
const answered: TrackerConnectionEvent = { type: 'answered', problem: null }
const partly: TrackerConnectionEvent = { type: 'answered', problem: 'ENG-3 could not be read' }
const refused: TrackerConnectionEvent = { type: 'refused', problem: 'the key is not valid' }
const due: TrackerConnectionEvent = { type: 'refresh due' }
const refreshed: TrackerConnectionEvent = { type: 'refreshed', refreshAt: 90 }
const early: TrackerConnectionEvent = { type: 'refresh failed', problem: 'no answer', isStillValid: true }
const late: TrackerConnectionEvent = { type: 'refresh failed', problem: 'no answer', isStillValid: false }
const denied: TrackerConnectionEvent = { type: 'refresh denied', problem: 'revoked' }

const input = undefined
trailTests<TrackerConnectionEvent>(trackerConnectionMachine, input, [
  ['an accepted key', [byKey, answered, partly, answered, unconfigured]],
  ['a refused key needs a person, and polling pauses meanwhile', [byKey, refused, refused, byKey]],
  [
    'a token is refreshed before it expires, and polling continues',
    [byToken, due, refused, refreshed, answered],
  ],
  [
    'a refused token is refreshed once; a refusal right after that needs a person',
    [byToken, refused, refreshed, refused],
  ],
  [
    'a token that was accepted in between is refreshed once more',
    [byToken, refused, refreshed, answered, refused],
    LAST_LINE,
  ],
  [
    'an early refresh that fails is retried while the token is still valid',
    [byToken, due, early, due, early, refused, refreshed],
  ],
  [
    'an expired token pauses the polling, and its refresh is retried until it succeeds',
    [byToken, due, late, refused, due, refused, late, due, refreshed],
  ],
  [
    'a token that has expired before the start is refreshed before the first poll',
    [byOldToken, refreshed, answered],
  ],
  [
    'a token that has expired before the start and cannot be refreshed needs a person',
    [byOldKey, expired, byKey],
  ],
  [
    'a token that has expired unnoticed is refreshed before the next request',
    [byToken, expired, refreshed, due, expired, late, expired, due, refreshed],
  ],
  ['a token that has expired unnoticed and cannot be refreshed needs a person', [byKey, expired], LAST_LINE],
  ['a refused refresh token needs a person', [byToken, due, denied, unconfigured, refused]],
  [
    'a refresh token that is refused only at a retry needs a person, too',
    [byToken, due, late, due, denied],
    LAST_LINE,
  ],
])

/** The tracker connection machine: when a token is refreshed, when that is retried, and when a person is needed. */
import {
  type TrackerConnectionEvent,
  trackerConnectionMachine,
} from '../../../actors/tracker/tracker-connection.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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
const stories: readonly Story<TrackerConnectionEvent>[] = [
  {
    title: 'an accepted key',
    input,
    events: [byKey, answered, partly, answered, unconfigured],
  },
  {
    title: 'a refused key needs a person, and polling pauses meanwhile',
    input,
    events: [byKey, refused, refused, byKey],
  },
  {
    title: 'a token is refreshed before it expires, and polling continues',
    input,
    events: [byToken, due, refused, refreshed, answered],
  },
  {
    title: 'a refused token is refreshed once; a refusal right after that needs a person',
    input,
    events: [byToken, refused, refreshed, refused],
  },
  {
    title: 'a token that was accepted in between is refreshed once more',
    input,
    events: [byToken, refused, refreshed, answered, refused],
    onlyLastLine: true,
  },
  {
    title: 'an early refresh that fails is retried while the token is still valid',
    input,
    events: [byToken, due, early, due, early, refused, refreshed],
  },
  {
    title: 'an expired token pauses the polling, and its refresh is retried until it succeeds',
    input,
    events: [byToken, due, late, refused, due, refused, late, due, refreshed],
  },
  {
    title: 'a token that has expired before the start is refreshed before the first poll',
    input,
    events: [byOldToken, refreshed, answered],
  },
  {
    title: 'a token that has expired before the start and cannot be refreshed needs a person',
    input,
    events: [byOldKey, expired, byKey],
  },
  {
    title: 'a token that has expired unnoticed is refreshed before the next request',
    input,
    events: [byToken, expired, refreshed, due, expired, late, expired, due, refreshed],
  },
  {
    title: 'a token that has expired unnoticed and cannot be refreshed needs a person',
    input,
    events: [byKey, expired],
    onlyLastLine: true,
  },
  {
    title: 'a refused refresh token needs a person',
    input,
    events: [byToken, due, denied, unconfigured, refused],
  },
  {
    title: 'a refresh token that is refused only at a retry needs a person, too',
    input,
    events: [byToken, due, late, due, denied],
    onlyLastLine: true,
  },
]

testTrails(trackerConnectionMachine, stories)

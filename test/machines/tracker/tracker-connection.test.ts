/** The link to the tracker: when a token is refreshed, when that is tried again, and when a person is needed. */
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
}
const byToken: TrackerConnectionEvent = {
  type: 'configured',
  pollMs: 1_000,
  refreshable: true,
  refreshAt: 50,
}
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
    title: 'a key that is taken',
    input,
    events: [byKey, answered, partly, answered, unconfigured],
  },
  {
    title: 'a key that is not taken needs a person, and nothing is polled meanwhile',
    input,
    events: [byKey, refused, refused, byKey],
  },
  {
    title: 'a token is refreshed before it runs out, and polling goes on',
    input,
    events: [byToken, due, refused, refreshed, answered],
  },
  {
    title: 'a refused token is refreshed once; refused right after that, it needs a person',
    input,
    events: [byToken, refused, refreshed, refused],
  },
  {
    title: 'taken in between, it is refreshed once more',
    input,
    events: [byToken, refused, refreshed, answered, refused],
    onlyLastLine: true,
  },
  {
    title: 'what can not be refreshed early is tried again while the token is still good',
    input,
    events: [byToken, due, early, due, early, refused, refreshed],
  },
  {
    title: 'run out and not refreshed: nothing is polled, and it is tried again until it works',
    input,
    events: [byToken, due, late, refused, due, refused, late, due, refreshed],
  },
  {
    title: 'a refresh token that is dead needs a person',
    input,
    events: [byToken, due, denied, unconfigured, refused],
  },
  {
    title: 'dead only at a later try, it needs a person all the same',
    input,
    events: [byToken, due, late, due, denied],
    onlyLastLine: true,
  },
]

testTrails(trackerConnectionMachine, stories)

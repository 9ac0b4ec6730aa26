/** The link to the tracker: when a token is refreshed, when that is tried again, and when a person is needed. */
import { type LinkEvent, linkMachine } from '../../../actors/tracker/tracker-connection.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const byKey: LinkEvent = { type: 'configured', pollMs: 1_000, refreshable: false, refreshAt: null }
const byToken: LinkEvent = { type: 'configured', pollMs: 1_000, refreshable: true, refreshAt: 50 }
const unconfigured: LinkEvent = { type: 'unconfigured' }
const answered: LinkEvent = { type: 'answered', problem: null }
const partly: LinkEvent = { type: 'answered', problem: 'ENG-3 could not be read' }
const refused: LinkEvent = { type: 'refused', problem: 'the key is not valid' }
const due: LinkEvent = { type: 'due' }
const refreshed: LinkEvent = { type: 'refreshed', refreshAt: 90 }
const early: LinkEvent = { type: 'not refreshed', problem: 'no answer', stillGood: true }
const late: LinkEvent = { type: 'not refreshed', problem: 'no answer', stillGood: false }
const denied: LinkEvent = { type: 'refresh denied', problem: 'revoked' }

const input = undefined
const stories: readonly Story<LinkEvent>[] = [
  {
    title: 'a key that is taken',
    input,
    events: [byKey, answered, partly, answered, unconfigured],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000',
      'answered → connected.holding',
      'answered → connected.holding : error=ENG-3 could not be read',
      'answered → connected.holding : error=null',
      'unconfigured → disconnected : tracker.await, tell intake intake paused',
    ],
  },
  {
    title: 'a key that is not taken needs a person, and nothing is polled meanwhile',
    input,
    events: [byKey, refused, refused, byKey],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000',
      'refused → auth-error : tracker.await, tell intake intake paused, error=the key is not valid',
      'refused → auth-error : tracker.settle',
      'configured → connected.holding : tracker.await, tell intake intake resumed, error=null',
    ],
  },
  {
    title: 'a token is refreshed before it runs out, and polling goes on',
    input,
    events: [byToken, due, refused, refreshed, answered],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000, refreshable=true, refreshAt=50',
      'due → connected.refreshing : tracker.refresh',
      'refused → connected.refreshing',
      'refreshed → connected.holding : tracker.await, refreshAt=90, proven=false',
      'answered → connected.holding : proven=true',
    ],
  },
  {
    title: 'a refused token is refreshed once; refused right after that, it needs a person',
    input,
    events: [byToken, refused, refreshed, refused],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000, refreshable=true, refreshAt=50',
      'refused → connected.refreshing : tracker.refresh',
      'refreshed → connected.holding : tracker.await, refreshAt=90, proven=false',
      'refused → auth-error : tracker.await, tell intake intake paused, error=the key is not valid',
    ],
  },
  {
    title: 'taken in between, it is refreshed once more',
    input,
    events: [byToken, refused, refreshed, answered, refused],
    ends: 'refused → connected.refreshing : tracker.refresh',
  },
  {
    title: 'what can not be refreshed early is tried again while the token is still good',
    input,
    events: [byToken, due, early, due, early, refused, refreshed],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000, refreshable=true, refreshAt=50',
      'due → connected.refreshing : tracker.refresh',
      'not refreshed → connected.holding early : tracker.rest, failures=1',
      'due → connected.refreshing : tracker.refresh',
      'not refreshed → connected.holding early : tracker.rest, failures=2',
      'refused → connected.refreshing : tracker.refresh',
      'refreshed → connected.holding : tracker.await, refreshAt=90, proven=false, failures=0',
    ],
  },
  {
    title: 'run out and not refreshed: nothing is polled, and it is tried again until it works',
    input,
    events: [byToken, due, late, refused, due, refused, late, due, refreshed],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000, refreshable=true, refreshAt=50',
      'due → connected.refreshing : tracker.refresh',
      'not refreshed → refresh-failing.waiting : tracker.rest, tell intake intake paused, error=no answer, failures=1',
      'refused → refresh-failing.waiting : tracker.settle',
      'due → refresh-failing.refreshing : tracker.refresh',
      'refused → refresh-failing.refreshing',
      'not refreshed → refresh-failing.waiting : tracker.rest, failures=2',
      'due → refresh-failing.refreshing : tracker.refresh',
      'refreshed → connected.holding : tracker.await, tell intake intake resumed, error=null, refreshAt=90, proven=false, failures=0',
    ],
  },
  {
    title: 'a refresh token that is dead needs a person',
    input,
    events: [byToken, due, denied, unconfigured, refused],
    trail: [
      'start → disconnected : tracker.await, tell intake intake paused',
      'configured → connected.holding : tracker.await, tell intake intake resumed, pollMs=1000, refreshable=true, refreshAt=50',
      'due → connected.refreshing : tracker.refresh',
      'refresh denied → auth-error : tracker.await, tell intake intake paused, error=revoked',
      'unconfigured → disconnected : tracker.await, tell intake intake paused, error=null, refreshable=false, refreshAt=null',
      'refused → disconnected : tracker.settle',
    ],
  },
  {
    title: 'dead only at a later try, it needs a person all the same',
    input,
    events: [byToken, due, late, due, denied],
    ends: 'refresh denied → auth-error : tracker.await, tell intake intake paused, error=revoked',
  },
]

tell(linkMachine, stories)

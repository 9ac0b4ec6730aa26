/** How the intake looks at a tracker: one look at a time, and none is forgotten. */
import { type TrackerPollEvent, trackerPollMachine } from '../../../actors/tracker/tracker-poll.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const resumed: TrackerPollEvent = { type: 'resumed', pollMs: 30_000 }
const paused: TrackerPollEvent = { type: 'paused' }
const trackerChanged: TrackerPollEvent = { type: 'tracker changed' }
const pollFinished: TrackerPollEvent = { type: 'poll finished' }
const intervalPassed: TrackerPollEvent = { type: 'interval passed' }

const input = undefined
const stories: readonly Story<TrackerPollEvent>[] = [
  {
    title: 'a tracker is looked at as soon as it may be, and again after a while',
    input,
    events: [resumed, pollFinished, intervalPassed, pollFinished],
  },
  {
    title: 'something changed: it looks at once',
    input,
    events: [resumed, pollFinished, trackerChanged, pollFinished],
  },
  {
    title: 'something changed while it was looking: it looks again',
    input,
    events: [resumed, trackerChanged, trackerChanged, pollFinished, pollFinished],
  },
  {
    title: 'another tracker is looked at at once',
    input,
    events: [resumed, resumed, pollFinished, resumed],
  },
  {
    title: 'paused, it looks at nothing, whatever is touched',
    input,
    events: [resumed, pollFinished, paused, trackerChanged, intervalPassed, pollFinished, resumed],
  },
]

testTrails(trackerPollMachine, stories)

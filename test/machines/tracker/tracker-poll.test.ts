/** How the intake looks at a tracker: one look at a time, and none is forgotten. */
import { type TrackerPollEvent, trackerPollMachine } from '../../../actors/tracker/tracker-poll.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const resumed: TrackerPollEvent = { type: 'resumed', pollMs: 30_000 }
const paused: TrackerPollEvent = { type: 'paused' }
const touched: TrackerPollEvent = { type: 'tracker changed' }
const looked: TrackerPollEvent = { type: 'poll finished' }
const rested: TrackerPollEvent = { type: 'interval passed' }

const input = undefined
const stories: readonly Story<TrackerPollEvent>[] = [
  {
    title: 'a tracker is looked at as soon as it may be, and again after a while',
    input,
    events: [resumed, looked, rested, looked],
  },
  {
    title: 'something changed: it looks at once',
    input,
    events: [resumed, looked, touched, looked],
  },
  {
    title: 'something changed while it was looking: it looks again',
    input,
    events: [resumed, touched, touched, looked, looked],
  },
  {
    title: 'another tracker is looked at at once',
    input,
    events: [resumed, resumed, looked, resumed],
  },
  {
    title: 'paused, it looks at nothing, whatever is touched',
    input,
    events: [resumed, looked, paused, touched, rested, looked, resumed],
  },
]

testTrails(trackerPollMachine, stories)

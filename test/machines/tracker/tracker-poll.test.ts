/** The tracker poll machine: polls do not overlap, and no change is missed. */
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
    title: 'a tracker is polled as soon as it is available, and again after the interval',
    input,
    events: [resumed, pollFinished, intervalPassed, pollFinished],
  },
  {
    title: 'a change is polled at once',
    input,
    events: [resumed, pollFinished, trackerChanged, pollFinished],
  },
  {
    title: 'a change during a poll causes another poll',
    input,
    events: [resumed, trackerChanged, trackerChanged, pollFinished, pollFinished],
  },
  {
    title: 'another tracker is polled at once',
    input,
    events: [resumed, resumed, pollFinished, resumed],
  },
  {
    title: 'while paused, no event causes a poll',
    input,
    events: [resumed, pollFinished, paused, trackerChanged, intervalPassed, pollFinished, resumed],
  },
]

testTrails(trackerPollMachine, stories)

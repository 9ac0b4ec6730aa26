/** The tracker poll machine: polls do not overlap, and no change is missed. */
import { type TrackerPollEvent, trackerPollMachine } from '../../../actors/tracker/tracker-poll.machine.ts'
import { trailTests } from '../trail-tests.ts'

const resumed: TrackerPollEvent = { type: 'resumed', pollMs: 30_000 }
const paused: TrackerPollEvent = { type: 'paused' }
const trackerChanged: TrackerPollEvent = { type: 'tracker changed' }
const pollFinished: TrackerPollEvent = { type: 'poll finished' }
const intervalPassed: TrackerPollEvent = { type: 'interval passed' }

const input = undefined
trailTests<TrackerPollEvent>(trackerPollMachine, input, [
  [
    'a tracker is polled as soon as it is available, and again after the interval',
    [resumed, pollFinished, intervalPassed, pollFinished],
  ],
  ['a change is polled at once', [resumed, pollFinished, trackerChanged, pollFinished]],
  [
    'a change during a poll causes another poll',
    [resumed, trackerChanged, trackerChanged, pollFinished, pollFinished],
  ],
  ['another tracker is polled at once', [resumed, resumed, pollFinished, resumed]],
  [
    'while paused, no event causes a poll',
    [resumed, pollFinished, paused, trackerChanged, intervalPassed, pollFinished, resumed],
  ],
])

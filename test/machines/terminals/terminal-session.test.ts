/** What becomes of a sandbox that is booted for a person. */
import { type AttachEvent, attachMachine } from '../../../actors/terminals/terminal-session.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const input = { runId: 'run-1', workerId: 'wk-1', requestId: 'bt-1' }
const ready: AttachEvent = { type: 'ready' }
const watched: AttachEvent = { type: 'watched' }
const unwatched: AttachEvent = { type: 'unwatched' }
const lost: AttachEvent = { type: 'line lost' }
const back: AttachEvent = { type: 'line back' }
const exited: AttachEvent = { type: 'exited' }
const timeOver: AttachEvent = { type: 'time over' }
const failed: AttachEvent = { type: 'failed', reason: 'no room' }
const released: AttachEvent = { type: 'released', reason: 'by a person' }
const left: AttachEvent = { type: 'worker left' }

/** What each end does, wherever it comes. */
const ENDS: readonly (readonly [AttachEvent, string])[] = [
  [failed, 'failed → over : attach.release, over, reason=no room'],
  [released, 'released → over : attach.release, over, reason=by a person'],
  [left, 'worker left → over : over, reason=the worker that held the sandbox is enrolled no more'],
]

const PLACES: readonly (readonly [string, readonly AttachEvent[]])[] = [
  ['while it is being booted', []],
  ['while nobody looks at it', [ready]],
  ['while somebody looks at it', [ready, watched]],
  ['while its worker is away', [ready, watched, lost]],
  ['while those who looked at its end are told', [ready, watched, exited]],
]

const ends: readonly Story<AttachEvent>[] = PLACES.flatMap(([place, events]) =>
  ENDS.map(([event, line]) => ({
    title: `${event.type} ${place}`,
    input,
    events: [...events, event],
    ends: line,
  })),
)

const stories: readonly Story<AttachEvent>[] = [
  {
    title: 'somebody looks at it, leaves, and nobody comes again',
    input,
    events: [ready, watched, unwatched, timeOver],
    trail: [
      'start → booting : attach.boot',
      'ready → unwatched',
      'watched → watched : watched=true',
      'unwatched → unwatched : watched=false',
      'time over → over : attach.release, over, reason=nobody looked at it for a while, and so it was released; try again',
    ],
  },
  {
    title: 'its worker is away for a while, and those who look at it are shown it anew',
    input,
    events: [ready, watched, lost, back],
    trail: [
      'start → booting : attach.boot',
      'ready → unwatched',
      'watched → watched : watched=true',
      'line lost → waiting',
      'line back → watched : attach.reopen',
    ],
  },
  {
    title: 'everybody leaves while its worker is away: the grace begins when it is back',
    input,
    events: [ready, watched, lost, unwatched, back],
    ends: 'line back → unwatched : attach.reopen',
  },
  {
    title: 'somebody comes while its worker is away',
    input,
    events: [ready, lost, watched, back],
    ends: 'line back → watched : attach.reopen',
  },
  {
    title: 'its worker stays away',
    input,
    events: [ready, lost, timeOver],
    ends: 'time over → over : attach.release, over, reason=the worker did not come back in time; try again once it is connected',
  },
  {
    title: 'its worker takes too long to boot it',
    input,
    events: [timeOver],
    ends: 'time over → over : attach.release, over, reason=the sandbox could not be booted in time; try again',
  },
  {
    title: 'its worker is lost while it boots it',
    input,
    events: [lost],
    ends: 'line lost → over : attach.release, over, reason=the worker was lost while it booted the sandbox; try again once it is back',
  },
  {
    title: 'its session ends, and it is over when everybody who looks at it has been told',
    input,
    events: [ready, watched, exited, unwatched],
    ends: 'unwatched → over : over, watched=false',
  },
  {
    title: 'its session ends while nobody looks',
    input,
    events: [ready, exited],
    ends: 'exited → over : over',
  },
  {
    title: 'its session ends, and somebody is not told in time',
    input,
    events: [ready, watched, exited, timeOver],
    ends: 'time over → over : over',
  },
  {
    title: 'its session ends, and its worker is lost before everybody is told',
    input,
    events: [ready, watched, exited, lost],
    ends: 'line lost → over : over',
  },
  ...ends,
]

tell(attachMachine, stories)

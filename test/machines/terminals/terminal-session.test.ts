/** What becomes of a sandbox that is booted for a person. */
import {
  type TerminalSessionEvent,
  terminalSessionMachine,
} from '../../../actors/terminals/terminal-session.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const input = { runId: 'run-1', workerId: 'wk-1', requestId: 'bt-1' }
const ready: TerminalSessionEvent = { type: 'ready' }
const watched: TerminalSessionEvent = { type: 'watched' }
const unwatched: TerminalSessionEvent = { type: 'unwatched' }
const lost: TerminalSessionEvent = { type: 'connection lost' }
const restored: TerminalSessionEvent = { type: 'connection restored' }
const exited: TerminalSessionEvent = { type: 'exited' }
const timedOut: TerminalSessionEvent = { type: 'timed out' }
const failed: TerminalSessionEvent = { type: 'failed', reason: 'no room' }
const released: TerminalSessionEvent = { type: 'released', reason: 'by a person' }
const workerRemoved: TerminalSessionEvent = { type: 'worker removed' }

/** What each end does, wherever it comes. */
const ENDS: readonly TerminalSessionEvent[] = [failed, released, workerRemoved]

const SITUATIONS: readonly (readonly [string, readonly TerminalSessionEvent[]])[] = [
  ['while it is being booted', []],
  ['while nobody looks at it', [ready]],
  ['while somebody looks at it', [ready, watched]],
  ['while its worker is away', [ready, watched, lost]],
  ['while those who looked at its end are told', [ready, watched, exited]],
]

const ends: readonly Story<TerminalSessionEvent>[] = SITUATIONS.flatMap(([place, events]) =>
  ENDS.map((event) => ({
    title: `${event.type} ${place}`,
    input,
    events: [...events, event],
    onlyLastLine: true,
  })),
)

const stories: readonly Story<TerminalSessionEvent>[] = [
  {
    title: 'somebody looks at it, leaves, and nobody comes again',
    input,
    events: [ready, watched, unwatched, timedOut],
  },
  {
    title: 'its worker is away for a while, and those who look at it are shown it anew',
    input,
    events: [ready, watched, lost, restored],
  },
  {
    title: 'everybody leaves while its worker is away: the grace begins when it is back',
    input,
    events: [ready, watched, lost, unwatched, restored],
    onlyLastLine: true,
  },
  {
    title: 'somebody comes while its worker is away',
    input,
    events: [ready, lost, watched, restored],
    onlyLastLine: true,
  },
  {
    title: 'its worker stays away',
    input,
    events: [ready, lost, timedOut],
    onlyLastLine: true,
  },
  {
    title: 'its worker takes too long to boot it',
    input,
    events: [timedOut],
    onlyLastLine: true,
  },
  {
    title: 'its worker is lost while it boots it',
    input,
    events: [lost],
    onlyLastLine: true,
  },
  {
    title: 'its session ends, and it is over when everybody who looks at it has been told',
    input,
    events: [ready, watched, exited, unwatched],
    onlyLastLine: true,
  },
  {
    title: 'its session ends while nobody looks',
    input,
    events: [ready, exited],
    onlyLastLine: true,
  },
  {
    title: 'its session ends, and somebody is not told in time',
    input,
    events: [ready, watched, exited, timedOut],
    onlyLastLine: true,
  },
  {
    title: 'its session ends, and its worker is lost before everybody is told',
    input,
    events: [ready, watched, exited, lost],
    onlyLastLine: true,
  },
  ...ends,
]

testTrails(terminalSessionMachine, stories)

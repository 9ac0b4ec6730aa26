/** The terminal session machine: a resumed sandbox from its boot order to its release. */
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

/** Every event that ends a session, in every situation. */
const ENDS: readonly TerminalSessionEvent[] = [failed, released, workerRemoved]

const SITUATIONS: readonly (readonly [string, readonly TerminalSessionEvent[]])[] = [
  ['while the sandbox boots', []],
  ['while no terminal is open', [ready]],
  ['while a terminal is open', [ready, watched]],
  ['while the worker is disconnected', [ready, watched, lost]],
  ['while the terminals are being closed', [ready, watched, exited]],
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
    title: 'a terminal is opened and closed, and none follows',
    input,
    events: [ready, watched, unwatched, timedOut],
  },
  {
    title: 'the worker disconnects for a while, and the views are opened again',
    input,
    events: [ready, watched, lost, restored],
  },
  {
    title: 'all terminals close while the worker is disconnected: the grace begins when it reconnects',
    input,
    events: [ready, watched, lost, unwatched, restored],
    onlyLastLine: true,
  },
  {
    title: 'a terminal is opened while the worker is disconnected',
    input,
    events: [ready, lost, watched, restored],
    onlyLastLine: true,
  },
  {
    title: 'the worker stays disconnected',
    input,
    events: [ready, lost, timedOut],
    onlyLastLine: true,
  },
  {
    title: 'the worker takes too long to boot the sandbox',
    input,
    events: [timedOut],
    onlyLastLine: true,
  },
  {
    title: 'the worker disconnects while it boots the sandbox',
    input,
    events: [lost],
    onlyLastLine: true,
  },
  {
    title: 'the session ends, and its actor ends when all terminals are closed',
    input,
    events: [ready, watched, exited, unwatched],
    onlyLastLine: true,
  },
  {
    title: 'the session ends while no terminal is open',
    input,
    events: [ready, exited],
    onlyLastLine: true,
  },
  {
    title: 'the session ends, and a terminal is not closed in time',
    input,
    events: [ready, watched, exited, timedOut],
    onlyLastLine: true,
  },
  {
    title: 'the session ends, and the worker disconnects before all terminals are closed',
    input,
    events: [ready, watched, exited, lost],
    onlyLastLine: true,
  },
  ...ends,
]

testTrails(terminalSessionMachine, stories)

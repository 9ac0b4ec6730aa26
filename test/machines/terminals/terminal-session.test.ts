/** The terminal session machine: a resumed sandbox from its boot order to its release. */
import {
  type TerminalSessionEvent,
  terminalSessionMachine,
} from '../../../actors/terminals/terminal-session.machine.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

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

const situations: Readonly<Record<string, readonly TerminalSessionEvent[]>> = {
  'the sandbox boots': [],
  'no terminal is open': [ready],
  'a terminal is open': [ready, watched],
  'the worker is disconnected': [ready, watched, lost],
  'the terminals are being closed': [ready, watched, exited],
}

trailTests<TerminalSessionEvent>(terminalSessionMachine, input, [
  ['a terminal is opened and closed, and none follows', [ready, watched, unwatched, timedOut]],
  ['the worker disconnects for a while, and the views are opened again', [ready, watched, lost, restored]],
  [
    'all terminals close while the worker is disconnected: the grace begins when it reconnects',
    [ready, watched, lost, unwatched, restored],
    LAST_LINE,
  ],
  ['a terminal is opened while the worker is disconnected', [ready, lost, watched, restored], LAST_LINE],
  ['the worker stays disconnected', [ready, lost, timedOut], LAST_LINE],
  ['the worker takes too long to boot the sandbox', [timedOut], LAST_LINE],
  ['the worker disconnects while it boots the sandbox', [lost], LAST_LINE],
  [
    'the session ends, and its actor ends when all terminals are closed',
    [ready, watched, exited, unwatched],
    LAST_LINE,
  ],
  ['the session ends while no terminal is open', [ready, exited], LAST_LINE],
  ['the session ends, and a terminal is not closed in time', [ready, watched, exited, timedOut], LAST_LINE],
  [
    'the session ends, and the worker disconnects before all terminals are closed',
    [ready, watched, exited, lost],
    LAST_LINE,
  ],
  ...inEach(situations, [
    ['failed', [failed], LAST_LINE],
    ['released', [released], LAST_LINE],
    ['worker removed', [workerRemoved], LAST_LINE],
  ]),
])

/** Trails of the resumed sandbox machine. */
import {
  type ResumedSandboxEvent,
  resumedSandboxMachine,
} from '../../../actors/daemon/resumed-sandbox.machine.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

const input = { runId: 'run-1' }

const ready: ResumedSandboxEvent = { type: 'booted' }
const refused: ResumedSandboxEvent = { type: 'boot failed' }
const again: ResumedSandboxEvent = { type: 'boot requested again' }
const viewed: ResumedSandboxEvent = { type: 'view opened' }
const left: ResumedSandboxEvent = { type: 'last view closed' }
const lost: ResumedSandboxEvent = { type: 'connection lost' }
const ended: ResumedSandboxEvent = { type: 'session ended' }
const release: ResumedSandboxEvent = { type: 'release requested' }
const late: ResumedSandboxEvent = { type: 'timed out' }
const closed: ResumedSandboxEvent = { type: 'closed' }

const open: Readonly<Record<string, readonly ResumedSandboxEvent[]>> = {
  'no view has opened yet': [ready],
  'a view is open': [ready, viewed],
  'the last view has closed': [ready, viewed, left],
  'the connection is lost': [ready, viewed, lost],
}

trailTests<ResumedSandboxEvent>(resumedSandboxMachine, input, [
  ['from the boot to the last closed view', [ready, viewed, left, late, closed]],
  ['a failed boot', [refused]],
  ['released during the boot, it closes as soon as it is booted', [release, ready, closed]],
  ['released during a boot that fails', [release, refused], LAST_LINE],
  ['no view ever opens', [ready, late], LAST_LINE],
  ['a page is reloaded', [ready, viewed, left, viewed], LAST_LINE],
  ['a repeated request restarts the wait for a view', [ready, again], LAST_LINE],
  ['requested again after the last view has closed', [ready, viewed, left, again], LAST_LINE],
  ['requested again after a lost connection', [ready, viewed, lost, again], LAST_LINE],
  ['the connection is lost, and a view opens again', [ready, viewed, lost, viewed]],
  ['the connection is lost before any view opened', [ready, lost], LAST_LINE],
  ['the connection is lost during a page reload', [ready, viewed, left, lost], LAST_LINE],
  ['repeated lost connections do not extend the wait', [ready, viewed, lost, lost], LAST_LINE],
  ['the host stays away', [ready, viewed, lost, late], LAST_LINE],
  ...inEach(open, [
    ['released', [release], LAST_LINE],
    ['its session ends', [ended], LAST_LINE],
  ]),
])

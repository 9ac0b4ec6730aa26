/** Trails of the resumed sandbox machine. */
import {
  type ResumedSandboxEvent,
  resumedSandboxMachine,
} from '../../../actors/daemon/resumed-sandbox.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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

const open: readonly (readonly [name: string, eventsBefore: readonly ResumedSandboxEvent[]])[] = [
  ['no view has opened yet', [ready]],
  ['a view is open', [ready, viewed]],
  ['the last view has closed', [ready, viewed, left]],
  ['the connection is lost', [ready, viewed, lost]],
]

const stories: readonly Story<ResumedSandboxEvent>[] = [
  {
    title: 'from the boot to the last closed view',
    input,
    events: [ready, viewed, left, late, closed],
  },
  {
    title: 'a failed boot',
    input,
    events: [refused],
  },
  {
    title: 'released during the boot, it closes as soon as it is booted',
    input,
    events: [release, ready, closed],
  },
  {
    title: 'released during a boot that fails',
    input,
    events: [release, refused],
    onlyLastLine: true,
  },
  {
    title: 'no view ever opens',
    input,
    events: [ready, late],
    onlyLastLine: true,
  },
  {
    title: 'a page is reloaded',
    input,
    events: [ready, viewed, left, viewed],
    onlyLastLine: true,
  },
  {
    title: 'a repeated request restarts the wait for a view',
    input,
    events: [ready, again],
    onlyLastLine: true,
  },
  {
    title: 'requested again after the last view has closed',
    input,
    events: [ready, viewed, left, again],
    onlyLastLine: true,
  },
  {
    title: 'requested again after a lost connection',
    input,
    events: [ready, viewed, lost, again],
    onlyLastLine: true,
  },
  {
    title: 'the connection is lost, and a view opens again',
    input,
    events: [ready, viewed, lost, viewed],
  },
  {
    title: 'the connection is lost before any view opened',
    input,
    events: [ready, lost],
    onlyLastLine: true,
  },
  {
    title: 'the connection is lost during a page reload',
    input,
    events: [ready, viewed, left, lost],
    onlyLastLine: true,
  },
  {
    title: 'repeated lost connections do not extend the wait',
    input,
    events: [ready, viewed, lost, lost],
    onlyLastLine: true,
  },
  {
    title: 'the host stays away',
    input,
    events: [ready, viewed, lost, late],
    onlyLastLine: true,
  },
  ...open.flatMap(([name, eventsBefore]): Story<ResumedSandboxEvent>[] => [
    {
      title: `released while ${name}`,
      input,
      events: [...eventsBefore, release],
      onlyLastLine: true,
    },
    {
      title: `its session ends while ${name}`,
      input,
      events: [...eventsBefore, ended],
      onlyLastLine: true,
    },
  ]),
]

testTrails(resumedSandboxMachine, stories)

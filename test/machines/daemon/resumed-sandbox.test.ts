/** What becomes of a sandbox that was booted for a person, one story for each way. */
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

const open: readonly (readonly [name: string, way: readonly ResumedSandboxEvent[]])[] = [
  ['nobody has come yet', [ready]],
  ['somebody looks at it', [ready, viewed]],
  ['a page may be loading anew', [ready, viewed, left]],
  ['the line is away', [ready, viewed, lost]],
]

const stories: readonly Story<ResumedSandboxEvent>[] = [
  {
    title: 'from the boot to the last person having left',
    input,
    events: [ready, viewed, left, late, closed],
  },
  {
    title: 'what can not be booted is over',
    input,
    events: [refused],
  },
  {
    title: 'released on its way, it is closed as soon as it is there',
    input,
    events: [release, ready, closed],
  },
  {
    title: 'released on its way, it may also not come at all',
    input,
    events: [release, refused],
    onlyLastLine: true,
  },
  {
    title: 'nobody ever comes',
    input,
    events: [ready, late],
    onlyLastLine: true,
  },
  {
    title: 'a page is loaded anew',
    input,
    events: [ready, viewed, left, viewed],
    onlyLastLine: true,
  },
  {
    title: 'asked for again, it waits from then on',
    input,
    events: [ready, again],
    onlyLastLine: true,
  },
  {
    title: 'asked for again after the last one left',
    input,
    events: [ready, viewed, left, again],
    onlyLastLine: true,
  },
  {
    title: 'asked for again after the line was lost',
    input,
    events: [ready, viewed, lost, again],
    onlyLastLine: true,
  },
  {
    title: 'the line is lost, and comes back with its views',
    input,
    events: [ready, viewed, lost, viewed],
  },
  {
    title: 'the line is lost before anybody came',
    input,
    events: [ready, lost],
    onlyLastLine: true,
  },
  {
    title: 'the line is lost while a page is loading anew',
    input,
    events: [ready, viewed, left, lost],
    onlyLastLine: true,
  },
  {
    title: 'a line that breaks again and again gives no more time',
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
  ...open.flatMap(([name, way]): Story<ResumedSandboxEvent>[] => [
    {
      title: `released while ${name}`,
      input,
      events: [...way, release],
      onlyLastLine: true,
    },
    {
      title: `its session ends while ${name}`,
      input,
      events: [...way, ended],
      onlyLastLine: true,
    },
  ]),
]

testTrails(resumedSandboxMachine, stories)

/** What an execution does, from its dispatch to its end, one story for each way. */
import {
  type ExecutionEvent,
  type ExecutionInput,
  executionMachine,
} from '../../../actors/daemon/execution.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const input: ExecutionInput = {
  leaseId: 'ls-1',
  runId: 'run-1',
  workerId: 'wk-1',
  expiresAt: '2026-03-01T08:00:00.000Z',
  retentionHours: 24,
}

const cleared: ExecutionEvent = { type: 'older execution gone' }
const prepared: ExecutionEvent = { type: 'prepared', progress: { sandbox: { id: 'sb-1' } } }
const unprepared: ExecutionEvent = { type: 'preparation failed', reason: 'no such branch' }
const worked: ExecutionEvent = { type: 'agent ended', agent: { verdict: 'done' } }
const progressed: ExecutionEvent = { type: 'progressed', progress: { branch: 'b' } }
const spent: ExecutionEvent = { type: 'costs reported', costs: [] }
const ended: ExecutionEvent = { type: 'ended', outcome: { status: 'completed', costs: [] } }
const silent: ExecutionEvent = { type: 'ended', outcome: null }
const cancel: ExecutionEvent = { type: 'cancel requested', reason: 'changed my mind' }
const stopped: ExecutionEvent = { type: 'stop requested', reason: 'interrupted: the worker was stopped' }
const lost: ExecutionEvent = { type: 'lease lost', how: 'kill', reason: 'expired' }
const restarted: ExecutionEvent = { type: 'daemon restarted', reason: 'interrupted: it ended' }
const salvaged: ExecutionEvent = { type: 'recovered', sandbox: { id: 'sb-1' } }
const acknowledged: ExecutionEvent = { type: 'completion acknowledged' }

const phases: readonly (readonly [name: string, way: readonly ExecutionEvent[]])[] = [
  ['accepted', []],
  ['preparing', [cleared]],
  ['working', [cleared, prepared]],
  ['finishing', [cleared, prepared, worked]],
]

const stories: readonly Story<ExecutionEvent>[] = [
  {
    title: 'a run that is done is told until the host has it',
    input,
    events: [cleared, prepared, worked, ended, acknowledged],
  },
  {
    title: 'a run that can not be prepared still ends in order',
    input,
    events: [
      cleared,
      unprepared,
      { type: 'ended', outcome: { status: 'failed', error: 'no such branch', costs: [] } },
    ],
  },
  {
    title: 'one that waits in vain for an older one ends too',
    input,
    events: [unprepared],
  },
  ...phases.flatMap(([name, way]): Story<ExecutionEvent>[] => [
    {
      title: `cancelled while ${name}`,
      input,
      events: [...way, cancel],
      onlyLastLine: true,
    },
    {
      title: `stopped while ${name}`,
      input,
      events: [...way, stopped],
      onlyLastLine: true,
    },
    {
      title: `lost while ${name}`,
      input,
      events: [...way, lost],
      onlyLastLine: true,
    },
    {
      title: `progress while ${name}`,
      input,
      events: [...way, progressed],
      onlyLastLine: true,
    },
    { title: `costs while ${name}`, input, events: [...way, spent], onlyLastLine: true },
    {
      title: `the daemon dies while ${name}`,
      input,
      events: [...way, restarted],
      onlyLastLine: true,
    },
  ]),
  {
    title: 'a cancelled run that says how far it came is cancelled, and keeps what it brought about',
    input,
    events: [cleared, prepared, cancel, progressed, spent, ended],
  },
  {
    title: 'cancelled before it began it has nothing to say',
    input,
    events: [cancel, silent],
  },
  {
    title: 'cancelled and then stopped it stays cancelled',
    input,
    events: [cleared, cancel, stopped, silent],
  },
  {
    title: 'a daemon that is stopped tells its run as interrupted',
    input,
    events: [cleared, stopped, silent],
  },
  {
    title: 'what is done in spite of being stopped is done',
    input,
    events: [cleared, prepared, worked, stopped, ended],
  },
  {
    title: 'lost while it is being stopped',
    input,
    events: [cleared, cancel, lost, silent],
  },
  {
    title: 'the daemon dies while it is being stopped',
    input,
    events: [cleared, cancel, restarted, salvaged],
  },
  {
    title: 'abandoned gently, then not',
    input,
    events: [cleared, { ...lost, how: 'interrupt' }, stopped, lost],
  },
  {
    title: 'the daemon dies while it is being abandoned',
    input,
    events: [cleared, lost, restarted],
  },
  {
    title: 'salvaged, with the work out',
    input,
    events: [
      cleared,
      { ...progressed, progress: { branch: 'b', prUrl: 'https://c.example/1', prState: 'open' } },
      restarted,
      salvaged,
    ],
  },
  {
    title: 'salvaged, with what it had spent',
    input,
    events: [cleared, restarted, spent, salvaged],
    onlyLastLine: true,
  },
  {
    title: 'cancelled while what it left is salvaged',
    input,
    events: [cleared, restarted, cancel, salvaged],
  },
  {
    title: 'lost while what it left is salvaged',
    input,
    events: [cleared, restarted, lost],
  },
  {
    title: 'lost when it is finished',
    input,
    events: [cleared, prepared, worked, ended, lost],
  },
]

testTrails(executionMachine, stories)

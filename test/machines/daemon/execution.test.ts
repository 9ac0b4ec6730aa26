/** Trails of the execution machine. */
import {
  type ExecutionEvent,
  type ExecutionInput,
  executionMachine,
} from '../../../actors/daemon/execution.machine.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
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
const bill: CostEntry[] = [
  {
    label: 'run',
    provider: 'agentA',
    inputTokens: 1,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    estimated: true,
  },
]
const billed: ExecutionEvent = { type: 'costs reported', costs: bill }
const ended: ExecutionEvent = { type: 'ended', outcome: { status: 'completed', costs: [] } }
const silent: ExecutionEvent = { type: 'ended', outcome: null }
const cancel: ExecutionEvent = { type: 'cancel requested', reason: 'changed my mind' }
const stopped: ExecutionEvent = { type: 'stop requested', reason: 'interrupted: the worker was stopped' }
const lost: ExecutionEvent = { type: 'lease lost', how: 'kill', reason: 'expired' }
const restarted: ExecutionEvent = { type: 'daemon restarted', reason: 'interrupted: it ended' }
const salvaged: ExecutionEvent = { type: 'recovered', sandbox: { id: 'sb-1' } }
const acknowledged: ExecutionEvent = { type: 'completion acknowledged' }

const phases: readonly (readonly [name: string, eventsBefore: readonly ExecutionEvent[]])[] = [
  ['accepted', []],
  ['preparing', [cleared]],
  ['working', [cleared, prepared]],
  ['finishing', [cleared, prepared, worked]],
]

const stories: readonly Story<ExecutionEvent>[] = [
  {
    title: 'a run that is done is reported until the host acknowledges it',
    input,
    events: [cleared, prepared, worked, ended, acknowledged],
  },
  {
    title: 'a run that cannot be prepared is finished in order',
    input,
    events: [
      cleared,
      unprepared,
      { type: 'ended', outcome: { status: 'failed', error: 'no such branch', costs: [] } },
    ],
  },
  {
    title: 'a run whose older execution never ends is finished',
    input,
    events: [unprepared],
  },
  ...phases.flatMap(([name, eventsBefore]): Story<ExecutionEvent>[] => [
    {
      title: `cancelled while ${name}`,
      input,
      events: [...eventsBefore, cancel],
      onlyLastLine: true,
    },
    {
      title: `stop requested while ${name}`,
      input,
      events: [...eventsBefore, stopped],
      onlyLastLine: true,
    },
    {
      title: `lease lost while ${name}`,
      input,
      events: [...eventsBefore, lost],
      onlyLastLine: true,
    },
    {
      title: `progress while ${name}`,
      input,
      events: [...eventsBefore, progressed],
      onlyLastLine: true,
    },
    { title: `costs while ${name}`, input, events: [...eventsBefore, spent], onlyLastLine: true },
    {
      title: `the daemon dies while ${name}`,
      input,
      events: [...eventsBefore, restarted],
      onlyLastLine: true,
    },
  ]),
  {
    title: 'a cancelled run keeps its progress and its costs',
    input,
    events: [cleared, prepared, cancel, progressed, spent, ended],
  },
  {
    title: 'cancelled before it started, it has no outcome of its own',
    input,
    events: [cancel, silent],
  },
  {
    title: 'cancelled and then stopped, it stays cancelled',
    input,
    events: [cleared, cancel, stopped, silent],
  },
  {
    title: 'a stopped daemon reports its run as interrupted',
    input,
    events: [cleared, prepared, stopped, silent],
  },
  {
    title: 'a stopped daemon gives a run back whose agent has not begun',
    input,
    events: [cleared, stopped, silent],
  },
  {
    title: 'a daemon that died gives a run back whose agent had not begun',
    input,
    events: [cleared, restarted, salvaged],
  },
  {
    title: 'a run that completes in spite of a stop is completed',
    input,
    events: [cleared, prepared, worked, stopped, ended],
  },
  {
    title: 'lease lost while stopping',
    input,
    events: [cleared, cancel, lost, silent],
  },
  {
    title: 'the daemon dies while stopping',
    input,
    events: [cleared, cancel, restarted, salvaged],
  },
  {
    title: 'abandoned with an interrupt, then with a kill',
    input,
    events: [cleared, { ...lost, how: 'interrupt' }, stopped, lost],
  },
  {
    title: 'the daemon dies while the execution is abandoned',
    input,
    events: [cleared, lost, restarted, billed, salvaged],
  },
  {
    title: 'what an abandoned execution has spent is known before its processes are gone',
    input,
    events: [cleared, prepared, lost, billed, silent],
  },
  {
    title: 'what an abandoned execution has spent is in its last word',
    input,
    events: [cleared, prepared, lost, { type: 'ended', outcome: { status: 'failed', costs: bill } }],
  },
  {
    title: 'a cancel comes too late for a lost lease',
    input,
    events: [cleared, restarted, lost, cancel, salvaged],
  },
  {
    title: 'recovered with an opened pull request',
    input,
    events: [
      cleared,
      { ...progressed, progress: { branch: 'b', prUrl: 'https://c.example/1', prState: 'open' } },
      restarted,
      salvaged,
    ],
  },
  {
    title: 'recovered with costs',
    input,
    events: [cleared, prepared, restarted, spent, salvaged],
    onlyLastLine: true,
  },
  {
    title: 'cancelled while recovering',
    input,
    events: [cleared, restarted, cancel, salvaged],
  },
  {
    title: 'lease lost while recovering',
    input,
    events: [cleared, restarted, lost],
  },
  {
    title: 'lease lost when finished',
    input,
    events: [cleared, prepared, worked, ended, lost],
  },
]

testTrails(executionMachine, stories)

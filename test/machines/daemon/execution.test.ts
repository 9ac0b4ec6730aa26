/** Trails of the execution machine. */
import {
  type ExecutionEvent,
  type ExecutionInput,
  executionMachine,
} from '../../../actors/daemon/execution.machine.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

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

const phases: Readonly<Record<string, readonly ExecutionEvent[]>> = {
  accepted: [],
  preparing: [cleared],
  working: [cleared, prepared],
  finishing: [cleared, prepared, worked],
}

trailTests<ExecutionEvent>(executionMachine, input, [
  [
    'a run that is done is reported until the host acknowledges it',
    [cleared, prepared, worked, ended, acknowledged],
  ],
  [
    'a run that cannot be prepared is finished in order',
    [
      cleared,
      unprepared,
      { type: 'ended', outcome: { status: 'failed', error: 'no such branch', costs: [] } },
    ],
  ],
  ['a run whose older execution never ends is finished', [unprepared]],
  ...inEach(phases, [
    ['cancelled', [cancel], LAST_LINE],
    ['stop requested', [stopped], LAST_LINE],
    ['lease lost', [lost], LAST_LINE],
    ['progress', [progressed], LAST_LINE],
    ['costs', [spent], LAST_LINE],
    ['the daemon dies', [restarted], LAST_LINE],
  ]),
  ['a cancelled run keeps its progress and its costs', [cleared, prepared, cancel, progressed, spent, ended]],
  ['cancelled before it started, it has no outcome of its own', [cancel, silent]],
  ['cancelled and then stopped, it stays cancelled', [cleared, cancel, stopped, silent]],
  ['a stopped daemon reports its run as interrupted', [cleared, prepared, stopped, silent]],
  ['a stopped daemon gives a run back whose agent has not begun', [cleared, stopped, silent]],
  ['a daemon that died gives a run back whose agent had not begun', [cleared, restarted, salvaged]],
  ['a run that completes in spite of a stop is completed', [cleared, prepared, worked, stopped, ended]],
  ['lease lost while stopping', [cleared, cancel, lost, silent]],
  ['the daemon dies while stopping', [cleared, cancel, restarted, salvaged]],
  ['abandoned with an interrupt, then with a kill', [cleared, { ...lost, how: 'interrupt' }, stopped, lost]],
  ['the daemon dies while the execution is abandoned', [cleared, lost, restarted, billed, salvaged]],
  [
    'what an abandoned execution has spent is known before its processes are gone',
    [cleared, prepared, lost, billed, silent],
  ],
  [
    'what an abandoned execution has spent is in its last word',
    [cleared, prepared, lost, { type: 'ended', outcome: { status: 'failed', costs: bill } }],
  ],
  ['a cancel comes too late for a lost lease', [cleared, restarted, lost, cancel, salvaged]],
  [
    'recovered with an opened pull request',
    [
      cleared,
      { ...progressed, progress: { branch: 'b', prUrl: 'https://c.example/1', prState: 'open' } },
      restarted,
      salvaged,
    ],
  ],
  ['recovered with costs', [cleared, prepared, restarted, spent, salvaged], LAST_LINE],
  ['cancelled while recovering', [cleared, restarted, cancel, salvaged]],
  ['lease lost while recovering', [cleared, restarted, lost]],
  ['lease lost when finished', [cleared, prepared, worked, ended, lost]],
])

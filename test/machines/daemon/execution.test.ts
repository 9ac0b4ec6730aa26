/** What an execution does, from its dispatch to its end, one story for each way. */
import {
  type ExecutionEvent,
  type ExecutionInput,
  executionMachine,
} from '../../../actors/daemon/execution.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const input: ExecutionInput = {
  leaseId: 'ls-1',
  runId: 'run-1',
  workerId: 'wk-1',
  expiresAt: '2026-03-01T08:00:00.000Z',
  retentionHours: 24,
}

const cleared: ExecutionEvent = { type: 'cleared' }
const prepared: ExecutionEvent = { type: 'prepared', progress: { sandbox: { id: 'sb-1' } } }
const unprepared: ExecutionEvent = { type: 'could not prepare', reason: 'no such branch' }
const worked: ExecutionEvent = { type: 'worked', worked: { verdict: 'done' } }
const progressed: ExecutionEvent = { type: 'progressed', progress: { branch: 'b' } }
const spent: ExecutionEvent = { type: 'spent', costs: [] }
const ended: ExecutionEvent = { type: 'ended', said: { status: 'completed', costs: [] } }
const silent: ExecutionEvent = { type: 'ended', said: null }
const cancel: ExecutionEvent = { type: 'cancel requested', reason: 'changed my mind' }
const stopped: ExecutionEvent = { type: 'stopped', reason: 'interrupted: the worker was stopped' }
const lost: ExecutionEvent = { type: 'lost', how: 'kill', reason: 'expired' }
const restarted: ExecutionEvent = { type: 'daemon restarted', reason: 'interrupted: it ended' }
const salvaged: ExecutionEvent = { type: 'salvaged', sandbox: { id: 'sb-1' } }
const acknowledged: ExecutionEvent = { type: 'acknowledged' }

const DEAD =
  'daemon restarted → salvaging : execution.salvage, stop={"as":"interrupted","how":"kill","reason":"interrupted: it ended"}'

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
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'prepared → working : execution.work, sandbox={"id":"sb-1"}',
      'worked → finishing : execution.finish',
      'ended → finished : execution.report, outcome={"sandbox":{"id":"sb-1"},"status":"completed","costs":[]}',
      'acknowledged → over : over',
    ],
  },
  {
    title: 'a run that can not be prepared still ends in order',
    input,
    events: [
      cleared,
      unprepared,
      { type: 'ended', said: { status: 'failed', error: 'no such branch', costs: [] } },
    ],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'could not prepare → finishing : execution.finish',
      'ended → finished : execution.report, outcome={"status":"failed","error":"no such branch","costs":[]}',
    ],
  },
  {
    title: 'one that waits in vain for an older one ends too',
    input,
    events: [unprepared],
    trail: ['start → accepted : execution.accept', 'could not prepare → finishing : execution.finish'],
  },
  ...phases.flatMap(([name, way]): Story<ExecutionEvent>[] => [
    {
      title: `cancelled while ${name}`,
      input,
      events: [...way, cancel],
      ends: 'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
    },
    {
      title: `stopped while ${name}`,
      input,
      events: [...way, stopped],
      ends: 'stopped → stopping : stop={"as":"interrupted","how":"kill","reason":"interrupted: the worker was stopped"}',
    },
    {
      title: `lost while ${name}`,
      input,
      events: [...way, lost],
      ends: 'lost → abandoned : stop={"as":"nothing","how":"kill","reason":"expired"}',
    },
    {
      title: `progress while ${name}`,
      input,
      events: [...way, progressed],
      ends: `progressed → ${name} : branch=b`,
    },
    { title: `costs while ${name}`, input, events: [...way, spent], ends: `spent → ${name}` },
    {
      title: `the daemon dies while ${name}`,
      input,
      events: [...way, restarted],
      ends: name === 'accepted' ? 'daemon restarted → over : over' : DEAD,
    },
  ]),
  {
    title: 'a cancelled run that says how far it came is cancelled, and keeps what it brought about',
    input,
    events: [cleared, prepared, cancel, progressed, spent, ended],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'prepared → working : execution.work, sandbox={"id":"sb-1"}',
      'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
      'progressed → stopping : branch=b',
      'spent → stopping',
      'ended → finished : execution.report, outcome={"sandbox":{"id":"sb-1"},"status":"cancelled","costs":[]}',
    ],
  },
  {
    title: 'cancelled before it began it has nothing to say',
    input,
    events: [cancel, silent],
    trail: [
      'start → accepted : execution.accept',
      'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
      'ended → finished : execution.report, outcome={"status":"cancelled","costs":[]}',
    ],
  },
  {
    title: 'cancelled and then stopped it stays cancelled',
    input,
    events: [cleared, cancel, stopped, silent],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
      'stopped → stopping : how=kill, reason=interrupted: the worker was stopped',
      'ended → finished : execution.report, outcome={"status":"cancelled","costs":[]}',
    ],
  },
  {
    title: 'a daemon that is stopped tells its run as interrupted',
    input,
    events: [cleared, stopped, silent],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'stopped → stopping : stop={"as":"interrupted","how":"kill","reason":"interrupted: the worker was stopped"}',
      'ended → finished : execution.report, outcome={"status":"failed","error":"interrupted: the worker was stopped","costs":[]}',
    ],
  },
  {
    title: 'what is done in spite of being stopped is done',
    input,
    events: [cleared, prepared, worked, stopped, ended],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'prepared → working : execution.work, sandbox={"id":"sb-1"}',
      'worked → finishing : execution.finish',
      'stopped → stopping : stop={"as":"interrupted","how":"kill","reason":"interrupted: the worker was stopped"}',
      'ended → finished : execution.report, outcome={"sandbox":{"id":"sb-1"},"status":"completed","costs":[]}',
    ],
  },
  {
    title: 'lost while it is being stopped',
    input,
    events: [cleared, cancel, lost, silent],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
      'lost → abandoned : as=nothing, how=kill, reason=expired',
      'ended → over : over',
    ],
  },
  {
    title: 'the daemon dies while it is being stopped',
    input,
    events: [cleared, cancel, restarted, salvaged],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'cancel requested → stopping : stop={"as":"cancelled","how":"interrupt","reason":"changed my mind"}',
      'daemon restarted → salvaging : execution.salvage, how=kill, reason=interrupted: it ended',
      'salvaged → finished : execution.report, sandbox={"id":"sb-1"}, outcome={"sandbox":{"id":"sb-1"},"status":"cancelled","costs":[]}',
    ],
  },
  {
    title: 'abandoned gently, then not',
    input,
    events: [cleared, { ...lost, how: 'interrupt' }, stopped, lost],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'lost → abandoned : stop={"as":"nothing","how":"interrupt","reason":"expired"}',
      'stopped → abandoned : how=kill, reason=interrupted: the worker was stopped',
      'lost → abandoned : reason=expired',
    ],
  },
  {
    title: 'the daemon dies while it is being abandoned',
    input,
    events: [cleared, lost, restarted],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'lost → abandoned : stop={"as":"nothing","how":"kill","reason":"expired"}',
      'daemon restarted → over : over',
    ],
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
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'progressed → preparing : branch=b, prUrl=https://c.example/1, prState=open',
      'daemon restarted → salvaging : execution.salvage, stop={"as":"interrupted","how":"kill","reason":"interrupted: it ended"}',
      'salvaged → finished : execution.report, sandbox={"id":"sb-1"}, outcome={"sandbox":{"id":"sb-1"},"prUrl":"https://c.example/1","prState":"open","status":"completed","costs":[],"result":{"prUrl":"https://c.example/1","branch":"b","artifacts":[]}}',
    ],
  },
  {
    title: 'salvaged, with what it had spent',
    input,
    events: [cleared, restarted, spent, salvaged],
    ends: 'salvaged → finished : execution.report, sandbox={"id":"sb-1"}, outcome={"sandbox":{"id":"sb-1"},"status":"failed","error":"interrupted: it ended","costs":[]}',
  },
  {
    title: 'cancelled while what it left is salvaged',
    input,
    events: [cleared, restarted, cancel, salvaged],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'daemon restarted → salvaging : execution.salvage, stop={"as":"interrupted","how":"kill","reason":"interrupted: it ended"}',
      'cancel requested → salvaging : as=cancelled, how=interrupt, reason=changed my mind',
      'salvaged → finished : execution.report, sandbox={"id":"sb-1"}, outcome={"sandbox":{"id":"sb-1"},"status":"cancelled","costs":[]}',
    ],
  },
  {
    title: 'lost while what it left is salvaged',
    input,
    events: [cleared, restarted, lost],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'daemon restarted → salvaging : execution.salvage, stop={"as":"interrupted","how":"kill","reason":"interrupted: it ended"}',
      'lost → over : over',
    ],
  },
  {
    title: 'lost when it is finished',
    input,
    events: [cleared, prepared, worked, ended, lost],
    trail: [
      'start → accepted : execution.accept',
      'cleared → preparing : execution.begin',
      'prepared → working : execution.work, sandbox={"id":"sb-1"}',
      'worked → finishing : execution.finish',
      'ended → finished : execution.report, outcome={"sandbox":{"id":"sb-1"},"status":"completed","costs":[]}',
      'lost → over : over',
    ],
  },
]

tell(executionMachine, stories)

/** What a run does, from its ticket to its rest, one story for each way; and the same in each of its active states. */
import { type RunEvent, type RunInput, runMachine } from '../../../actors/runs/run.machine.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { INTERRUPTIONS_MAX } from '../../../protocol/limits.ts'
import { aTicket, T0, T1 } from '../../rules/run/runs.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const PR = 'https://codehost.example/pr/1'
const input: RunInput = {
  run: newRun('run-1', aTicket, T0),
  job: 'run',
  woken: null,
  earlier: null,
  attempts: 0,
}
const pulledBefore: RunInput = { ...input, run: { ...input.run, prUrl: PR } }
const followUp: RunInput = {
  ...input,
  job: 'follow-up',
  woken: 'completed',
  earlier: { result: { summary: 'done before', artifacts: [] }, startedAt: T0, finishedAt: T0 },
  attempts: 1,
  followUp: { id: 'fu-1', number: 3 },
}
const pulledFollowUp: RunInput = { ...followUp, run: { ...followUp.run, prUrl: PR } }

const granted: RunEvent = { type: 'granted', leaseId: 'ls-1' }
const declined: RunEvent = { type: 'declined', leaseId: 'ls-1', at: T1 }
const accepted: RunEvent = { type: 'accepted', leaseId: 'ls-1', workerId: 'wk-1', at: T1 }
const patched: RunEvent = { type: 'patched', workerId: 'wk-1', patch: { agentSessionId: 'session-1' } }
const pulled: RunEvent = { type: 'patched', workerId: 'wk-1', patch: { prUrl: PR } }
const runs: RunEvent = { type: 'patched to running', workerId: 'wk-1', patch: { status: 'running' } }
const finalizes: RunEvent = {
  type: 'patched to finalizing',
  workerId: 'wk-1',
  patch: { status: 'finalizing' },
}
const ended = (status: 'completed' | 'failed' | 'cancelled', error?: string): RunEvent => ({
  type: `ended ${status}`,
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at: T1,
  outcome: { status, costs: [], ...(error === undefined ? {} : { error }) },
  retentionHours: 24,
})
const lost: RunEvent = {
  type: 'lease lost',
  leaseId: 'ls-1',
  at: T1,
  reason: 'the worker did not come back in time',
}
const seen = (state: 'open' | 'draft' | 'merged' | 'closed') =>
  ({ type: 'pull seen', at: T1, url: PR, state }) as const
const gone: RunEvent = { type: 'pull gone', at: T1, reason: 'the code host does not know it any more' }
const cancel: RunEvent = { type: 'cancel requested', at: T1, reason: 'cancelled by a person' }
const enforced: RunEvent = { type: 'cancel enforced', leaseId: 'ls-1', at: T1 }
const broken: RunEvent = { type: 'broken', at: T1, reason: 'internal error: crashed 3 times' }

/** Lost as often as it may be without failing. */
const again = Array.from({ length: INTERRUPTIONS_MAX - 1 }, () => [granted, accepted, lost]).flat()

/** From `preparing` to each of the active states. */
const ways: Readonly<Record<string, readonly RunEvent[]>> = {
  preparing: [],
  running: [runs],
  finalizing: [runs, finalizes],
}

const stories: readonly Story<RunEvent>[] = [
  {
    title: 'a ticket becomes a run, which is granted, accepted, reported on and completed',
    input,
    events: [granted, accepted, patched, runs, pulled, finalizes, ended('completed')],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'patched → preparing : agentSessionId=session-1',
      'patched to running → running : status=running',
      'patched → running : prUrl=https://codehost.example/pr/1, opened=true',
      'patched to finalizing → finalizing : status=finalizing',
      'ended completed → completed : over, status=completed, finishedAt=2026-03-01T09:00:00.000Z, lease=null',
    ],
  },
  {
    title: 'a lease that is declined leaves it in the queue, where it was',
    input,
    events: [granted, declined],
    trail: ['start → queued', 'granted → queued : lease=ls-1', 'declined → queued : lease=null'],
  },
  {
    title: 'a lease that is lost before it was accepted leaves it in the queue too',
    input,
    events: [granted, lost],
    trail: ['start → queued', 'granted → queued : lease=ls-1', 'lease lost → queued : lease=null'],
  },
  {
    title: 'cancelled in the queue, it is over at once',
    input,
    events: [cancel],
    trail: [
      'start → queued',
      'cancel requested → cancelled : over, status=cancelled, finishedAt=2026-03-01T09:00:00.000Z',
    ],
  },
  {
    title: 'cancelled for a reason worth keeping, it says why',
    input,
    events: [{ ...cancel, reason: 'its ticket left', kept: true }],
    ends: 'cancel requested → cancelled : over, status=cancelled, finishedAt=2026-03-01T09:00:00.000Z, error=its ticket left',
  },
  {
    title: 'what the code host says of its pull request is kept, and only of that one',
    input: pulledBefore,
    events: [seen('draft'), { ...seen('merged'), url: `${PR}0` }, seen('draft')],
    trail: [
      'start → queued',
      'pull seen → queued : prState=draft',
      'pull seen → queued',
      'pull seen → queued',
    ],
  },
  {
    title: 'cancelled while it is offered, its lease is told',
    input,
    events: [granted, cancel],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'cancel requested → cancelled : tell lease ls-1 cancel requested, over, status=cancelled, finishedAt=2026-03-01T09:00:00.000Z, lease=null',
    ],
  },
  {
    title: 'a follow-up cancelled in the queue leaves its run completed',
    input: followUp,
    events: [granted, cancel],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'cancel requested → completed : tell lease ls-1 cancel requested, over, status=completed, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: it was cancelled, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}, lease=null',
    ],
  },
  {
    title: 'broken in the queue, it fails',
    input,
    events: [broken],
    trail: [
      'start → queued',
      'broken → failed : over, status=failed, finishedAt=2026-03-01T09:00:00.000Z, error=internal error: crashed 3 times',
    ],
  },
  {
    title: 'a follow-up whose pull request is merged while it waits is over, and its run is completed',
    input: pulledFollowUp,
    events: [seen('draft'), granted, seen('merged')],
    trail: [
      'start → queued',
      'pull seen → queued : prState=draft',
      'granted → queued : lease=ls-1',
      'pull seen → completed : tell lease ls-1 cancel requested, over, status=completed, prState=merged, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: its pull request is merged, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}, lease=null',
    ],
  },
  {
    title: 'so it is when the pull request is closed, and not when another one is',
    input: pulledFollowUp,
    events: [{ ...seen('closed'), url: `${PR}0` }, seen('closed')],
    trail: [
      'start → queued',
      'pull seen → queued',
      'pull seen → completed : over, status=completed, prState=closed, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: its pull request is closed, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}',
    ],
  },
  {
    title:
      'a follow-up whose pull request is over while a worker has it is cancelled, until it is being published',
    input: pulledFollowUp,
    events: [
      granted,
      accepted,
      seen('draft'),
      seen('closed'),
      runs,
      seen('draft'),
      seen('merged'),
      finalizes,
      seen('closed'),
    ],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=2',
      'pull seen → preparing : prState=draft',
      'pull seen → preparing : tell lease ls-1 cancel requested, prState=closed',
      'patched to running → running : status=running',
      'pull seen → running : prState=draft',
      'pull seen → running : tell lease ls-1 cancel requested, prState=merged',
      'patched to finalizing → finalizing : status=finalizing',
      'pull seen → finalizing : prState=closed',
    ],
  },
  {
    title: 'a run that is tried again goes on whatever its pull request is',
    input: pulledBefore,
    events: [seen('merged')],
    trail: ['start → queued', 'pull seen → queued : prState=merged'],
  },
  {
    title: 'a follow-up whose pull request nobody finds any more is over',
    input: pulledFollowUp,
    events: [gone],
    ends: 'pull gone → completed : over, status=completed, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: the code host does not know it any more, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}',
  },
  {
    title: 'a worker has it: that the code host does not find the pull request changes nothing',
    input: pulledFollowUp,
    events: [granted, accepted, seen('draft'), gone],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=2',
      'pull seen → preparing : prState=draft',
      'pull gone → preparing',
    ],
  },
  {
    title: 'a follow-up broken in the queue leaves its run completed',
    input: followUp,
    events: [broken],
    ends: 'broken → completed : over, status=completed, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: internal error: crashed 3 times, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}',
  },
  {
    title: 'a worker may skip a status, and never goes back',
    input,
    events: [granted, accepted, finalizes, runs, patched],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'patched to finalizing → finalizing : status=finalizing',
      'patched to running → finalizing',
      'patched → finalizing : agentSessionId=session-1',
    ],
  },
  {
    title: 'said again, a status is what it is',
    input,
    events: [granted, accepted, runs, runs, finalizes, finalizes],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'patched to running → running : status=running',
      'patched to running → running',
      'patched to finalizing → finalizing : status=finalizing',
      'patched to finalizing → finalizing',
    ],
  },
  {
    title: 'lost with a pull request of this lease, it is completed by it',
    input,
    events: [granted, accepted, pulled, lost],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'patched → preparing : prUrl=https://codehost.example/pr/1, opened=true',
      'lease lost → completed : over, status=completed, finishedAt=2026-03-01T09:00:00.000Z, result={"prUrl":"https://codehost.example/pr/1","artifacts":[]}, lease=null',
    ],
  },
  {
    title: 'a pull request of an earlier lease completes nothing',
    input: pulledBefore,
    events: [granted, accepted, lost],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'lease lost → queued : status=queued, queuedAt=2026-03-01T09:00:00.000Z, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=1',
    ],
  },
  {
    title: 'lost too often in a row, it fails',
    input,
    events: [...again, granted, accepted, lost],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=1',
      'lease lost → queued : status=queued, queuedAt=2026-03-01T09:00:00.000Z, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=1',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, queueReason forgotten, startedAt=2026-03-01T09:00:00.000Z, attempts=2',
      'lease lost → queued : status=queued, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=2',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, queueReason forgotten, startedAt=2026-03-01T09:00:00.000Z, attempts=3',
      'lease lost → failed : over, status=failed, finishedAt=2026-03-01T09:00:00.000Z, error=interrupted 3 times in a row, the last time because the worker did not come back in time, lease=null',
    ],
  },
  {
    title: 'a follow-up lost too often leaves its run completed',
    input: followUp,
    events: [...again, granted, accepted, lost],
    trail: [
      'start → queued',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, provider=bwrap, workerId=wk-1, startedAt=2026-03-01T09:00:00.000Z, attempts=2',
      'lease lost → queued : status=queued, queuedAt=2026-03-01T09:00:00.000Z, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=1',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, queueReason forgotten, startedAt=2026-03-01T09:00:00.000Z, attempts=3',
      'lease lost → queued : status=queued, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=2',
      'granted → queued : lease=ls-1',
      'accepted → preparing : status=preparing, queueReason forgotten, startedAt=2026-03-01T09:00:00.000Z, attempts=4',
      'lease lost → completed : over, status=completed, startedAt=2026-03-01T08:00:00.000Z, error=the follow-up failed: interrupted 3 times in a row, finishedAt=2026-03-01T08:00:00.000Z, result={"summary":"done before","artifacts":[]}, lease=null',
    ],
  },
  {
    title: 'nothing that comes after the end has any effect',
    input,
    events: [cancel, granted, accepted, cancel, broken],
    trail: [
      'start → queued',
      'cancel requested → cancelled : over, status=cancelled, finishedAt=2026-03-01T09:00:00.000Z',
      'granted → cancelled',
      'accepted → cancelled',
      'cancel requested → cancelled',
      'broken → cancelled',
    ],
  },
]

const OVER = `over, status=`
const at9 = 'finishedAt=2026-03-01T09:00:00.000Z'
const startedBefore = 'startedAt=2026-03-01T08:00:00.000Z'
const asBefore = 'finishedAt=2026-03-01T08:00:00.000Z'
const earlier = 'result={"summary":"done before","artifacts":[]}, lease=null'
const failedFollowUp = (why: string) =>
  `${OVER}completed, ${startedBefore}, error=the follow-up failed: ${why}, ${asBefore}, ${earlier}`

/** However far along it is, these end the same way: what, of what, after what, by what, and its last line. */
const everywhere: readonly (readonly [string, RunInput, readonly RunEvent[], readonly RunEvent[], string])[] =
  [
    [
      'completed',
      input,
      [],
      [ended('completed')],
      `ended completed → completed : ${OVER}completed, ${at9}, lease=null`,
    ],
    [
      'failed',
      input,
      [],
      [ended('failed', 'tests fail')],
      `ended failed → failed : ${OVER}failed, ${at9}, error=tests fail, lease=null`,
    ],
    [
      'cancelled',
      input,
      [],
      [ended('cancelled')],
      `ended cancelled → cancelled : ${OVER}cancelled, ${at9}, lease=null`,
    ],
    [
      'lost',
      input,
      [],
      [lost],
      'lease lost → queued : status=queued, queuedAt=2026-03-01T09:00:00.000Z, startedAt forgotten, queueReason=interrupted: the worker did not come back in time, lease=null, interruptions=1',
    ],
    [
      'lost with a pull request',
      input,
      [],
      [pulled, lost],
      `lease lost → completed : ${OVER}completed, ${at9}, result={"prUrl":"${PR}","artifacts":[]}, lease=null`,
    ],
    [
      'lost once too often',
      input,
      again,
      [lost],
      `lease lost → failed : ${OVER}failed, ${at9}, error=interrupted 3 times in a row, the last time because the worker did not come back in time, lease=null`,
    ],
    ['asked to cancel', input, [], [cancel], 'cancel requested → STATE : tell lease ls-1 cancel requested'],
    [
      'cancelled without a word of its worker',
      input,
      [],
      [enforced],
      `cancel enforced → cancelled : ${OVER}cancelled, ${at9}, lease=null`,
    ],
    [
      'broken',
      input,
      [],
      [broken],
      `broken → failed : ${OVER}failed, ${at9}, error=internal error: crashed 3 times, lease=null`,
    ],
    ['patched', input, [], [patched], 'patched → STATE : agentSessionId=session-1'],
    [
      'a follow-up completed',
      followUp,
      [],
      [ended('completed')],
      `ended completed → completed : ${OVER}completed, ${at9}, lease=null`,
    ],
    [
      'a follow-up failed',
      followUp,
      [],
      [ended('failed', 'tests fail')],
      `ended failed → completed : ${OVER}completed, ${startedBefore}, ${asBefore}, error=the follow-up failed: tests fail, ${earlier}`,
    ],
    [
      'a follow-up whose worker ended in the middle of it',
      pulledFollowUp,
      [],
      [ended('failed', 'interrupted: the worker was stopped')],
      'ended failed → queued : status=queued, queuedAt=2026-03-01T09:00:00.000Z, startedAt forgotten, queueReason=interrupted: the worker was stopped, lease=null, interruptions=1',
    ],
    [
      'a follow-up that somebody cancelled before its worker ended',
      followUp,
      [],
      [{ ...ended('failed', 'interrupted: the worker was stopped'), unwanted: true } as RunEvent],
      `ended failed → completed : ${OVER}completed, ${startedBefore}, ${asBefore}, error=the follow-up failed: interrupted: the worker was stopped, ${earlier}`,
    ],
    [
      'a follow-up whose worker ended once too often',
      followUp,
      again,
      [ended('failed', 'interrupted: the worker was stopped')],
      `ended failed → completed : ${OVER}completed, ${startedBefore}, ${asBefore}, error=the follow-up failed: interrupted: the worker was stopped, ${earlier}`,
    ],
    [
      'first work whose worker ended in the middle of it',
      input,
      [],
      [ended('failed', 'interrupted: the worker was stopped')],
      `ended failed → failed : ${OVER}failed, ${at9}, error=interrupted: the worker was stopped, lease=null`,
    ],
    [
      'a follow-up cancelled',
      followUp,
      [],
      [ended('cancelled')],
      `ended cancelled → completed : ${OVER}completed, ${startedBefore}, ${asBefore}, error=the follow-up failed: it was cancelled, ${earlier}`,
    ],
    [
      'a follow-up cancelled without a word of its worker',
      followUp,
      [],
      [enforced],
      `cancel enforced → completed : ${failedFollowUp('it was cancelled')}`,
    ],
    [
      'a follow-up cancelled because there is nothing to follow up any more',
      pulledFollowUp,
      [],
      [seen('merged'), ended('cancelled')],
      `ended cancelled → completed : ${OVER}completed, ${startedBefore}, ${asBefore}, error=the follow-up failed: its pull request is merged, ${earlier}`,
    ],
    [
      'a follow-up lost once too often',
      followUp,
      again,
      [lost],
      `lease lost → completed : ${failedFollowUp('interrupted 3 times in a row')}`,
    ],
    [
      'a broken follow-up',
      followUp,
      [],
      [broken],
      `broken → completed : ${failedFollowUp('internal error: crashed 3 times')}`,
    ],
  ]

const inEveryState = Object.entries(ways).flatMap(([state, way]) =>
  everywhere.map(
    ([what, given, before, events, ends]): Story<RunEvent> => ({
      title: `${state}: ${what}`,
      input: given,
      events: [...before, granted, accepted, ...way, ...events],
      ends: ends.replace('STATE', state),
    }),
  ),
)

tell(runMachine, [...stories, ...inEveryState])

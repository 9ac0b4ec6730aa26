/** What a run does, from its ticket to its rest, one story for each way; and the same in each of its active states. */
import { type RunInput, type RunMachineEvent, runMachine } from '../../../actors/runs/run.machine.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { INTERRUPTIONS_MAX } from '../../../protocol/limits.ts'
import { aTicket, T0, T1 } from '../../rules/run/runs.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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

const granted: RunMachineEvent = { type: 'granted', leaseId: 'ls-1' }
const declined: RunMachineEvent = { type: 'declined', leaseId: 'ls-1', at: T1 }
const accepted: RunMachineEvent = { type: 'accepted', leaseId: 'ls-1', workerId: 'wk-1', at: T1 }
const patched: RunMachineEvent = { type: 'patched', workerId: 'wk-1', patch: { agentSessionId: 'session-1' } }
const pulled: RunMachineEvent = { type: 'patched', workerId: 'wk-1', patch: { prUrl: PR } }
const runs: RunMachineEvent = { type: 'patched to running', workerId: 'wk-1', patch: { status: 'running' } }
const finalizes: RunMachineEvent = {
  type: 'patched to finalizing',
  workerId: 'wk-1',
  patch: { status: 'finalizing' },
}
const ended = (status: 'completed' | 'failed' | 'cancelled', error?: string): RunMachineEvent => ({
  type: `ended ${status}`,
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at: T1,
  outcome: { status, costs: [], ...(error === undefined ? {} : { error }) },
  retentionHours: 24,
})
const lost: RunMachineEvent = {
  type: 'lease lost',
  leaseId: 'ls-1',
  at: T1,
  reason: 'the worker did not come back in time',
}
const seen = (state: 'open' | 'draft' | 'merged' | 'closed') =>
  ({ type: 'pull state reported', at: T1, url: PR, state }) as const
const gone: RunMachineEvent = { type: 'pull gone', at: T1, reason: 'the code host does not know it any more' }
const cancel: RunMachineEvent = { type: 'cancel requested', at: T1, reason: 'cancelled by a person' }
const enforced: RunMachineEvent = { type: 'cancel enforced', leaseId: 'ls-1', at: T1 }
const broken: RunMachineEvent = {
  type: 'lease actor failed',
  at: T1,
  reason: 'internal error: crashed 3 times',
}

/** Lost as often as it may be without failing. */
const again = Array.from({ length: INTERRUPTIONS_MAX - 1 }, () => [granted, accepted, lost]).flat()

/** From `preparing` to each of the active states. */
const ways: Readonly<Record<string, readonly RunMachineEvent[]>> = {
  preparing: [],
  running: [runs],
  finalizing: [runs, finalizes],
}

const stories: readonly Story<RunMachineEvent>[] = [
  {
    title: 'a ticket becomes a run, which is granted, accepted, reported on and completed',
    input,
    events: [granted, accepted, patched, runs, pulled, finalizes, ended('completed')],
  },
  {
    title: 'a lease that is declined leaves it in the queue, where it was',
    input,
    events: [granted, declined],
  },
  {
    title: 'a lease that is lost before it was accepted leaves it in the queue too',
    input,
    events: [granted, lost],
  },
  {
    title: 'cancelled in the queue, it is over at once',
    input,
    events: [cancel],
  },
  {
    title: 'cancelled for a reason worth keeping, it says why',
    input,
    events: [{ ...cancel, reason: 'its ticket left', kept: true }],
    onlyLastLine: true,
  },
  {
    title: 'what the code host says of its pull request is kept, and only of that one',
    input: pulledBefore,
    events: [seen('draft'), { ...seen('merged'), url: `${PR}0` }, seen('draft')],
  },
  {
    title: 'cancelled while it is offered, its lease is told',
    input,
    events: [granted, cancel],
  },
  {
    title: 'a follow-up cancelled in the queue leaves its run completed',
    input: followUp,
    events: [granted, cancel],
  },
  {
    title: 'broken in the queue, it fails',
    input,
    events: [broken],
  },
  {
    title: 'a follow-up whose pull request is merged while it waits is over, and its run is completed',
    input: pulledFollowUp,
    events: [seen('draft'), granted, seen('merged')],
  },
  {
    title: 'so it is when the pull request is closed, and not when another one is',
    input: pulledFollowUp,
    events: [{ ...seen('closed'), url: `${PR}0` }, seen('closed')],
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
  },
  {
    title: 'a run that is tried again goes on whatever its pull request is',
    input: pulledBefore,
    events: [seen('merged')],
  },
  {
    title: 'a follow-up whose pull request nobody finds any more is over',
    input: pulledFollowUp,
    events: [gone],
    onlyLastLine: true,
  },
  {
    title: 'a worker has it: that the code host does not find the pull request changes nothing',
    input: pulledFollowUp,
    events: [granted, accepted, seen('draft'), gone],
  },
  {
    title: 'a follow-up broken in the queue leaves its run completed',
    input: followUp,
    events: [broken],
    onlyLastLine: true,
  },
  {
    title: 'a worker may skip a status, and never goes back',
    input,
    events: [granted, accepted, finalizes, runs, patched],
  },
  {
    title: 'said again, a status is what it is',
    input,
    events: [granted, accepted, runs, runs, finalizes, finalizes],
  },
  {
    title: 'lost with a pull request of this lease, it is completed by it',
    input,
    events: [granted, accepted, pulled, lost],
  },
  {
    title: 'a pull request of an earlier lease completes nothing',
    input: pulledBefore,
    events: [granted, accepted, lost],
  },
  {
    title: 'lost too often in a row, it fails',
    input,
    events: [...again, granted, accepted, lost],
  },
  {
    title: 'a follow-up lost too often leaves its run completed',
    input: followUp,
    events: [...again, granted, accepted, lost],
  },
  {
    title: 'nothing that comes after the end has any effect',
    input,
    events: [cancel, granted, accepted, cancel, broken],
  },
]

/** However far along it is, these end the same way: what, of what, after what, by what, and its last line. */
const everywhere: readonly (readonly [
  string,
  RunInput,
  readonly RunMachineEvent[],
  readonly RunMachineEvent[],
])[] = [
  ['completed', input, [], [ended('completed')]],
  ['failed', input, [], [ended('failed', 'tests fail')]],
  ['cancelled', input, [], [ended('cancelled')]],
  ['lost', input, [], [lost]],
  ['lost with a pull request', input, [], [pulled, lost]],
  ['lost once too often', input, again, [lost]],
  ['asked to cancel', input, [], [cancel]],
  ['cancelled without a word of its worker', input, [], [enforced]],
  ['lease actor failed', input, [], [broken]],
  ['patched', input, [], [patched]],
  ['a follow-up completed', followUp, [], [ended('completed')]],
  ['a follow-up failed', followUp, [], [ended('failed', 'tests fail')]],
  [
    'a follow-up whose worker ended in the middle of it',
    pulledFollowUp,
    [],
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  [
    'a follow-up that somebody cancelled before its worker ended',
    followUp,
    [],
    [{ ...ended('failed', 'interrupted: the worker was stopped'), unwanted: true } as RunMachineEvent],
  ],
  [
    'a follow-up whose worker ended once too often',
    followUp,
    again,
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  [
    'first work whose worker ended in the middle of it',
    input,
    [],
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  ['a follow-up cancelled', followUp, [], [ended('cancelled')]],
  ['a follow-up cancelled without a word of its worker', followUp, [], [enforced]],
  [
    'a follow-up cancelled because there is nothing to follow up any more',
    pulledFollowUp,
    [],
    [seen('merged'), ended('cancelled')],
  ],
  ['a follow-up lost once too often', followUp, again, [lost]],
  ['a broken follow-up', followUp, [], [broken]],
]

const inEveryState = Object.entries(ways).flatMap(([state, way]) =>
  everywhere.map(
    ([what, given, before, events]): Story<RunMachineEvent> => ({
      title: `${state}: ${what}`,
      input: given,
      events: [...before, granted, accepted, ...way, ...events],
      onlyLastLine: true,
    }),
  ),
)

testTrails(runMachine, [...stories, ...inEveryState])

/** Trails of a run from its ticket to each of its ends, in each of its active states. */
import { type RunInput, type RunMachineEvent, runMachine } from '../../../actors/runs/run.machine.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../../protocol/config.ts'
import type { FailureKind, RunOutcome } from '../../../protocol/frames.ts'
import { UNPUBLISHED_BUNDLE } from '../../../protocol/kept-bundle.ts'
import { INTERRUPTIONS_MAX, UNBEGUN_DISPATCHES_MAX } from '../../../protocol/limits.ts'
import type { PullState, RunPull } from '../../../protocol/run.ts'
import { aCost, aTicket, T0, T1 } from '../../rules/run/runs.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const PR = 'https://codehost.example/pr/1'
const input: RunInput = {
  run: newRun('run-1', aTicket, DEFAULT_SANDBOX_PROVIDER, T0),
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
const acceptedBy = (workerId: string): RunMachineEvent => ({
  type: 'accepted',
  leaseId: 'ls-1',
  workerId,
  at: T1,
})
const accepted = acceptedBy('wk-1')
const patched: RunMachineEvent = { type: 'patched', workerId: 'wk-1', patch: { agentSessionId: 'session-1' } }
const pulled: RunMachineEvent = { type: 'patched', workerId: 'wk-1', patch: { prUrl: PR } }
const charged: RunMachineEvent = {
  type: 'patched',
  workerId: 'wk-1',
  patch: { costs: [aCost({ outputTokens: 7 })] },
}
const settled: RunMachineEvent = {
  type: 'costs settled',
  share: { label: 'run', from: 0, entries: [] },
  costs: [aCost({ outputTokens: 5 })],
}
const changed = (instructions: string): RunMachineEvent => ({
  type: 'options changed',
  options: { instructions, effort: 'low' },
})
const edited = (title: string): RunMachineEvent => ({
  type: 'ticket edited',
  ticket: { ...aTicket, title, repo: 'web', state: 'In Progress' },
})
const editedByAuthor: RunMachineEvent = {
  type: 'ticket edited',
  ticket: { ...aTicket, edited: { by: 'eve', at: T1 } },
}
const pull: RunPull = { remote: 'owner/name', number: 1, branch: 'switchyard/eng-12', confirmed: false }
const reported: RunMachineEvent = { type: 'patched', workerId: 'wk-1', patch: { prUrl: PR }, pull }
const answer = { at: T1, asked: PR }
const confirmedBy = (opener: 'run' | 'other', state: PullState = 'open'): RunMachineEvent => ({
  ...answer,
  type: 'pull confirmed',
  pull,
  url: PR,
  state,
  opener,
})
const refuted: RunMachineEvent = { ...answer, type: 'pull refuted', reason: 'its branch is main' }
const unanswered: RunMachineEvent = { ...answer, type: 'pull unanswered', reason: 'GitHub answered 502' }
const overdue: RunMachineEvent = { ...answer, type: 'pull answer overdue', reason: 'GitHub answered 502' }
const runs: RunMachineEvent = { type: 'patched to running', workerId: 'wk-1', patch: { status: 'running' } }
const finalizes: RunMachineEvent = {
  type: 'patched to finalizing',
  workerId: 'wk-1',
  patch: { status: 'finalizing' },
}
const ended = (
  status: 'completed' | 'failed' | 'cancelled',
  error?: string,
  failure?: FailureKind,
): RunMachineEvent => ({
  type: `ended ${status}`,
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at: T1,
  outcome: {
    status,
    costs: [],
    ...(error === undefined ? {} : { error }),
    ...(failure === undefined ? {} : { failure }),
  },
  retentionHours: 24,
})
const KEPT_UNTIL = '2026-03-02T09:00:00.000Z'
/** Only the deadline judges by the clock. */
const AFTER = '2026-03-02T09:00:01.000Z'
/** The agent is done, and its work could not be published. */
const unpublished = (
  {
    kept = KEPT_UNTIL,
    at = T1,
    status = 'failed',
  }: { kept?: string; at?: string; status?: 'failed' | 'cancelled' } = {},
  why = 'a rule refused the push',
  keys?: RunOutcome['keys'],
): RunMachineEvent => ({
  type: `ended ${status}`,
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at,
  outcome: {
    status,
    ...(status === 'failed' ? { error: why, failure: 'publish' } : {}),
    ...(keys === undefined ? {} : { keys }),
    costs: [aCost({ outputTokens: 7 })],
    result: { summary: 'Fixed.', artifacts: ['log.txt', UNPUBLISHED_BUNDLE] },
    sandbox: { id: 'run-1', retainedUntil: kept, unpublished: true },
  },
  retentionHours: 24,
})
const withKeys = unpublished({}, 'a.env holds a key', [{ kind: 'a GitHub token', file: 'a.env', line: 2 }])
const publishAnyway: RunMachineEvent = { type: 'publish now', anyway: true }
const tryAgain: RunMachineEvent = { type: 'deadline.publish' }
const publishNow: RunMachineEvent = { type: 'publish now' }
const keptNoLonger: RunMachineEvent = { type: 'deadline.kept', at: Date.parse(KEPT_UNTIL) }
const sandboxLost: RunMachineEvent = {
  type: 'sandbox lost',
  at: T1,
  reason: 'worker w was revoked',
}
/** An older host, which knows no `begun`, queues such a run again as well. */
const givenBack: RunMachineEvent = {
  type: 'ended failed',
  leaseId: 'ls-1',
  workerId: 'wk-1',
  at: T1,
  outcome: {
    status: 'failed',
    failure: 'configuration',
    begun: false,
    error: 'the worker was stopped',
    costs: [],
  },
  retentionHours: 24,
}
const lost: RunMachineEvent = {
  type: 'lease lost',
  leaseId: 'ls-1',
  at: T1,
  reason: 'the worker is away',
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

/** Loses its lease as often as it may without failing. */
const interruptions = Array.from({ length: INTERRUPTIONS_MAX - 1 }, () => [granted, accepted, lost]).flat()

/** The next dispatch is the last that may be given back. */
const tooOften = (given: RunInput): RunInput => ({ ...given, attempts: UNBEGUN_DISPATCHES_MAX - 1 })

/** Events from `preparing` to each of the active states. */
const eventsByState: Readonly<Record<string, readonly RunMachineEvent[]>> = {
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
    title: 'a declined lease leaves the run at its place in the queue',
    input,
    events: [granted, declined],
  },
  {
    title: 'a waiting run takes other words and another agent, and a granted one does not',
    input,
    events: [changed('Use SQLite.'), granted, changed('Too late.'), declined],
  },
  {
    title: 'a waiting run follows its ticket but for the state, and a granted or executed one does not',
    input,
    events: [
      edited('First'),
      granted,
      edited('Too late.'),
      declined,
      edited('Second'),
      granted,
      accepted,
      edited('Too late.'),
      runs,
      edited('Too late.'),
      lost,
      edited('Third'),
    ],
  },
  {
    title: 'a waiting run that has a pull request keeps its ticket',
    input: pulledBefore,
    events: [edited('Too late.')],
  },
  {
    title: 'a waiting follow-up keeps its ticket',
    input: followUp,
    events: [edited('Too late.')],
  },
  {
    title: 'a lease lost before it was accepted leaves the run in the queue',
    input,
    events: [granted, lost],
  },
  {
    title: 'a run cancelled in the queue ends at once',
    input,
    events: [cancel],
  },
  {
    title: 'a run cancelled with a kept reason stores it as its error',
    input,
    events: [{ ...cancel, reason: 'its ticket left', kept: true }],
    onlyLastLine: true,
  },
  {
    title: 'the state of the run’s own pull request is stored, and of no other',
    input: pulledBefore,
    events: [seen('draft'), { ...seen('merged'), url: `${PR}0` }, seen('draft')],
  },
  {
    title: 'a run cancelled while it is offered cancels its lease',
    input,
    events: [granted, cancel],
  },
  {
    title: 'a follow-up cancelled in the queue leaves its run completed',
    input: followUp,
    events: [granted, cancel],
  },
  {
    title: 'a queued run whose lease actor failed fails',
    input,
    events: [broken],
  },
  {
    title: 'a queued follow-up ends when its pull request is merged, and its run is completed',
    input: pulledFollowUp,
    events: [seen('draft'), granted, seen('merged')],
  },
  {
    title: 'a queued follow-up ends when its own pull request is closed, not when another one is',
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
    title: 'a retried run continues whatever the state of its pull request',
    input: pulledBefore,
    events: [seen('merged')],
  },
  {
    title: 'a queued follow-up ends when its pull request is not found any more',
    input: pulledFollowUp,
    events: [gone],
    onlyLastLine: true,
  },
  {
    title: 'an active follow-up continues when its pull request is not found',
    input: pulledFollowUp,
    events: [granted, accepted, seen('draft'), gone],
  },
  {
    title: 'a queued follow-up whose lease actor failed leaves its run completed',
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
    title: 'a repeated status changes nothing',
    input,
    events: [granted, accepted, runs, runs, finalizes, finalizes],
  },
  {
    title: 'a run that lost its lease is completed by a confirmed pull request of that lease',
    input,
    events: [granted, accepted, reported, confirmedBy('run', 'merged'), lost],
  },
  {
    title: 'a run that lost its lease waits until the code host confirms its pull request',
    input,
    events: [granted, accepted, reported, lost, unanswered, confirmedBy('run')],
  },
  {
    title: 'a run that waits for the code host is queued again when the pull request is not its own',
    input,
    events: [granted, accepted, reported, lost, refuted, granted],
  },
  {
    title: 'a run that waits for the code host is queued again when somebody else opened the pull request',
    input,
    events: [granted, accepted, reported, lost, confirmedBy('other'), granted],
  },
  {
    title: 'a run that lost its lease is queued again when somebody else opened its pull request',
    input,
    events: [granted, accepted, reported, confirmedBy('other'), lost],
  },
  {
    title: 'a queued run loses a pull request of an earlier worker that is not its own',
    input: pulledBefore,
    events: [refuted],
  },
  {
    title: 'an answer about another pull request changes nothing',
    input,
    events: [
      granted,
      accepted,
      reported,
      lost,
      { ...confirmedBy('run'), asked: `${PR}0` } as RunMachineEvent,
    ],
  },
  {
    title: 'a run that waits too long for the code host fails',
    input,
    events: [granted, accepted, reported, lost, overdue],
    onlyLastLine: true,
  },
  {
    title: 'a run interrupted too often fails when its pull request is not its own',
    input,
    events: [...interruptions, granted, accepted, reported, lost, refuted],
    onlyLastLine: true,
  },
  {
    title: 'a run interrupted too often fails when somebody else opened its pull request',
    input,
    events: [...interruptions, granted, accepted, reported, lost, confirmedBy('other')],
    onlyLastLine: true,
  },
  {
    title: 'a pull request that is not the run’s is dropped while the worker works',
    input,
    events: [granted, accepted, reported, refuted, lost],
  },
  {
    title: 'a pull request of an earlier lease does not complete a run that lost its lease',
    input: pulledBefore,
    events: [granted, accepted, lost],
  },
  {
    title: 'a run that lost its lease too often in a row fails',
    input,
    events: [...interruptions, granted, accepted, lost],
  },
  {
    title: 'a follow-up that lost its lease too often leaves its run completed',
    input: followUp,
    events: [...interruptions, granted, accepted, lost],
  },
  {
    title: 'the costs of an ended lease come in front of those of the current one',
    input,
    events: [granted, accepted, lost, granted, accepted, charged, settled],
  },
  {
    title: 'the costs of an ended lease reach a run in the queue',
    input,
    events: [granted, accepted, charged, lost, settled],
  },
  {
    title: 'finished work that could not be published is published again, without an agent and at no attempt',
    input,
    events: [
      granted,
      accepted,
      runs,
      finalizes,
      charged,
      unpublished(),
      tryAgain,
      granted,
      accepted,
      ended('completed'),
    ],
  },
  {
    title: 'finished work waits longer after each try, until something changes',
    input,
    events: [
      ...[granted, accepted, unpublished()],
      ...[tryAgain, granted, accepted, unpublished()],
      ...[publishNow, publishNow, granted, publishNow, accepted, unpublished()],
    ],
  },
  {
    title: 'a person starts a run whose ticket a stranger edited',
    input,
    events: [editedByAuthor, { type: 'edit approved' }, granted, { type: 'edit approved' }, accepted],
  },
  {
    title: 'finished work that holds keys waits for a person, who says that it is published anyway',
    input,
    events: [
      ...[granted, accepted, runs, finalizes, withKeys],
      tryAgain,
      ...[publishAnyway, granted, accepted, unpublished()],
      ...[tryAgain, granted, accepted, ended('completed')],
    ],
  },
  {
    title:
      'finished work that holds keys is searched again when a person retries it, and fails when its time is over',
    input,
    events: [granted, accepted, withKeys, publishNow, granted, accepted, runs, withKeys, keptNoLonger],
  },
  {
    title: 'finished work that was not published while its sandbox was kept fails the run',
    input,
    events: [granted, accepted, unpublished(), keptNoLonger],
  },
  {
    title: 'a lease outlives the sandbox with finished work by its own end only: declined',
    input,
    events: [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      keptNoLonger,
      { ...declined, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
  },
  {
    title: 'a lease outlives the sandbox with finished work by its own end only: lost in the queue',
    input,
    events: [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      keptNoLonger,
      { ...lost, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
    onlyLastLine: true,
  },
  {
    title: 'finished work is lost with the worker that holds it, but for the bundle',
    input,
    events: [granted, accepted, unpublished(), sandboxLost],
    onlyLastLine: true,
  },
  {
    title: 'a follow-up whose sandbox with finished work is lost leaves its run completed',
    input: followUp,
    events: [granted, accepted, unpublished(), sandboxLost],
  },
  {
    title: 'a follow-up whose finished work was not published in time leaves its run completed',
    input: followUp,
    events: [granted, accepted, unpublished(), keptNoLonger],
    onlyLastLine: true,
  },
  {
    title: 'a follow-up’s lease outlives the sandbox with finished work by its own end only: declined',
    input: followUp,
    events: [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      { ...declined, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
    onlyLastLine: true,
  },
  {
    title:
      'a follow-up’s lease outlives the sandbox with finished work by its own end only: lost in the queue',
    input: followUp,
    events: [
      ...[granted, accepted, unpublished(), tryAgain, granted],
      ...[{ ...lost, at: AFTER } as RunMachineEvent, keptNoLonger],
    ],
    onlyLastLine: true,
  },
  {
    title: 'finished work whose sandbox is not kept waits for its deadline, which has passed',
    input,
    events: [granted, accepted, unpublished({ kept: T1 })],
    onlyLastLine: true,
  },
  {
    title: 'a run cancelled while its finished work waits keeps the work in its sandbox',
    input,
    events: [granted, accepted, unpublished(), cancel],
    onlyLastLine: true,
  },
  {
    title: 'a run cancelled while it publishes keeps the work in its sandbox',
    input,
    events: [granted, accepted, runs, finalizes, unpublished({ status: 'cancelled' })],
    onlyLastLine: true,
  },
  {
    title: 'a person’s words to a run whose finished work waits ask the agent again',
    input,
    events: [
      granted,
      accepted,
      unpublished(),
      { type: 'options changed', options: { effort: 'low' } },
      changed('Use SQLite.'),
      granted,
      accepted,
    ],
  },
  {
    title: 'finished work whose worker has lost it fails the run',
    input,
    events: [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      accepted,
      ended('failed', 'the sandbox is gone'),
    ],
    onlyLastLine: true,
  },
  {
    title: 'a retry of a run with unpublished work publishes first',
    input: { ...input, publishing: { tries: 0, nextAt: null, why: 'x', startedAt: T0, result: null } },
    events: [granted, accepted, unpublished()],
  },
  {
    title: 'no event after the end has an effect',
    input,
    events: [cancel, granted, accepted, cancel, broken],
  },
]

/** Ends that are the same in each active state: title, job, events before, the event, and the last transition. */
const endsInEveryState: readonly (readonly [
  string,
  RunInput,
  readonly RunMachineEvent[],
  readonly RunMachineEvent[],
])[] = [
  ['completed', input, [], [ended('completed')]],
  ['failed', input, [], [ended('failed', 'tests fail')]],
  ['given back for its remote', input, [], [ended('failed', 'the remote is wrong', 'configuration')]],
  ['finished work not published', input, [], [unpublished()]],
  [
    'finished work not published of a run that a person cancelled',
    input,
    [],
    [{ ...unpublished(), unwanted: true } as RunMachineEvent],
  ],
  ['the lease of finished work lost', input, [granted, accepted, unpublished(), tryAgain], [lost]],
  [
    'the lease of finished work lost, and its sandbox',
    input,
    [granted, acceptedBy('wk-2'), { ...unpublished(), workerId: 'wk-2' } as RunMachineEvent, tryAgain],
    [lost],
  ],
  [
    'the lease of a follow-up’s finished work lost, and its sandbox',
    followUp,
    [granted, acceptedBy('wk-2'), { ...unpublished(), workerId: 'wk-2' } as RunMachineEvent, tryAgain],
    [lost],
  ],
  [
    'the lease of finished work lost after the time of its sandbox',
    input,
    [granted, accepted, unpublished(), tryAgain],
    [{ ...lost, at: AFTER } as RunMachineEvent, keptNoLonger],
  ],
  ['given back for its key', input, [], [ended('failed', 'the key is refused', 'credentials')]],
  ['failed for its tests', input, [], [ended('failed', 'tests fail', 'verification')]],
  [
    'given back after a person cancelled it',
    input,
    [],
    [{ ...ended('failed', 'the remote is wrong', 'configuration'), unwanted: true } as RunMachineEvent],
  ],
  ['a follow-up given back', followUp, [], [ended('failed', 'the remote is wrong', 'configuration')]],
  ['cancelled', input, [], [ended('cancelled')]],
  ['lease lost', input, [], [lost]],
  ['lease lost with a confirmed pull request', input, [], [reported, confirmedBy('run'), lost]],
  ['lease lost with a pull request', input, [], [pulled, lost]],
  ['lease lost once too often', input, interruptions, [lost]],
  ['cancel requested', input, [], [cancel]],
  ['cancelled without an answer of its worker', input, [], [enforced]],
  ['lease actor failed', input, [], [broken]],
  ['patched', input, [], [patched]],
  ['a follow-up completed', followUp, [], [ended('completed')]],
  ['a follow-up failed', followUp, [], [ended('failed', 'tests fail')]],
  [
    'a follow-up whose worker ended meanwhile',
    pulledFollowUp,
    [],
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  [
    'a follow-up that a person cancelled before its worker ended',
    followUp,
    [],
    [{ ...ended('failed', 'interrupted: the worker was stopped'), unwanted: true } as RunMachineEvent],
  ],
  [
    'a follow-up whose worker ended once too often',
    followUp,
    interruptions,
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  [
    'a first run whose worker ended meanwhile',
    input,
    [],
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  [
    'a first run whose worker ended once too often',
    input,
    interruptions,
    [ended('failed', 'interrupted: the worker was stopped')],
  ],
  ['a first run whose worker ended before its agent began', input, interruptions, [givenBack]],
  ['a follow-up whose worker ended before its agent began', followUp, interruptions, [givenBack]],
  [
    'a first run whose worker ended before its agent began as often as may be',
    tooOften(input),
    [],
    [givenBack],
  ],
  [
    'a follow-up whose worker ended before its agent began as often as may be',
    tooOften(followUp),
    [],
    [givenBack],
  ],
  [
    'a first run that a person cancelled before it was given back',
    input,
    [],
    [{ ...givenBack, unwanted: true } as RunMachineEvent],
  ],
  ['a follow-up cancelled', followUp, [], [ended('cancelled')]],
  ['a follow-up cancelled without an answer of its worker', followUp, [], [enforced]],
  [
    'a follow-up cancelled because its pull request is merged',
    pulledFollowUp,
    [],
    [seen('merged'), ended('cancelled')],
  ],
  ['a follow-up that lost its lease once too often', followUp, interruptions, [lost]],
  ['a follow-up whose lease actor failed', followUp, [], [broken]],
]

const inEveryState = Object.entries(eventsByState).flatMap(([state, stateEvents]) =>
  endsInEveryState.map(
    ([what, given, before, events]): Story<RunMachineEvent> => ({
      title: `${state}: ${what}`,
      input: given,
      events: [...before, granted, accepted, ...stateEvents, ...events],
      onlyLastLine: true,
    }),
  ),
)

testTrails(runMachine, [...stories, ...inEveryState])

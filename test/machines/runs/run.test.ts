/** Trails of a run from its ticket to each of its ends, in each of its active states. */
import {
  INTERRUPTIONS_MAX,
  type RunInput,
  type RunMachineEvent,
  runMachine,
  UNBEGUN_DISPATCHES_MAX,
} from '../../../actors/runs/run.machine.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../../protocol/config.ts'
import type { FailureKind, RunOutcome } from '../../../protocol/frames.ts'
import { UNPUBLISHED_BUNDLE } from '../../../protocol/kept-bundle.ts'
import type { PullState, RunPull } from '../../../protocol/run.ts'
import { aCost, aTicket, T0, T1 } from '../../rules/run/runs.ts'
import { LAST_LINE, type TrailRow, trailTests } from '../trail-tests.ts'

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

const stories: readonly TrailRow<RunMachineEvent>[] = [
  [
    'a ticket becomes a run, which is granted, accepted, reported on and completed',
    [granted, accepted, patched, runs, pulled, finalizes, ended('completed')],
  ],
  ['a declined lease leaves the run at its place in the queue', [granted, declined]],
  [
    'a waiting run takes other words and another agent, and a granted one does not',
    [changed('Use SQLite.'), granted, changed('Too late.'), declined],
  ],
  [
    'a waiting run follows its ticket but for the state, and a granted or executed one does not',
    [
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
  ],
  ['a waiting run that has a pull request keeps its ticket', [edited('Too late.')], { input: pulledBefore }],
  ['a waiting follow-up keeps its ticket', [edited('Too late.')], { input: followUp }],
  ['a lease lost before it was accepted leaves the run in the queue', [granted, lost]],
  ['a run cancelled in the queue ends at once', [cancel]],
  [
    'a run cancelled with a kept reason stores it as its error',
    [{ ...cancel, reason: 'its ticket left', kept: true }],
    LAST_LINE,
  ],
  [
    'the state of the run’s own pull request is stored, and of no other',
    [seen('draft'), { ...seen('merged'), url: `${PR}0` }, seen('draft')],
    { input: pulledBefore },
  ],
  ['a run cancelled while it is offered cancels its lease', [granted, cancel]],
  ['a follow-up cancelled in the queue leaves its run completed', [granted, cancel], { input: followUp }],
  ['a queued run whose lease actor failed fails', [broken]],
  [
    'a queued follow-up ends when its pull request is merged, and its run is completed',
    [seen('draft'), granted, seen('merged')],
    { input: pulledFollowUp },
  ],
  [
    'a queued follow-up ends when its own pull request is closed, not when another one is',
    [{ ...seen('closed'), url: `${PR}0` }, seen('closed')],
    { input: pulledFollowUp },
  ],
  [
    'a follow-up whose pull request is over while a worker has it is cancelled, until it is being published',
    [
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
    { input: pulledFollowUp },
  ],
  [
    'a retried run continues whatever the state of its pull request',
    [seen('merged')],
    { input: pulledBefore },
  ],
  [
    'a queued follow-up ends when its pull request is not found any more',
    [gone],
    { input: pulledFollowUp, onlyLastLine: true },
  ],
  [
    'an active follow-up continues when its pull request is not found',
    [granted, accepted, seen('draft'), gone],
    { input: pulledFollowUp },
  ],
  [
    'a queued follow-up whose lease actor failed leaves its run completed',
    [broken],
    { input: followUp, onlyLastLine: true },
  ],
  ['a worker may skip a status, and never goes back', [granted, accepted, finalizes, runs, patched]],
  ['a repeated status changes nothing', [granted, accepted, runs, runs, finalizes, finalizes]],
  [
    'a run that lost its lease is completed by a confirmed pull request of that lease',
    [granted, accepted, reported, confirmedBy('run', 'merged'), lost],
  ],
  [
    'a run that lost its lease waits until the code host confirms its pull request',
    [granted, accepted, reported, lost, unanswered, confirmedBy('run')],
  ],
  [
    'a run that waits for the code host is queued again when the pull request is not its own',
    [granted, accepted, reported, lost, refuted, granted],
  ],
  [
    'a run that waits for the code host is queued again when somebody else opened the pull request',
    [granted, accepted, reported, lost, confirmedBy('other'), granted],
  ],
  [
    'a run that lost its lease is queued again when somebody else opened its pull request',
    [granted, accepted, reported, confirmedBy('other'), lost],
  ],
  [
    'a queued run loses a pull request of an earlier worker that is not its own',
    [refuted],
    { input: pulledBefore },
  ],
  [
    'an answer about another pull request changes nothing',
    [granted, accepted, reported, lost, { ...confirmedBy('run'), asked: `${PR}0` } as RunMachineEvent],
  ],
  [
    'a run that waits too long for the code host fails',
    [granted, accepted, reported, lost, overdue],
    LAST_LINE,
  ],
  [
    'a run interrupted too often fails when its pull request is not its own',
    [...interruptions, granted, accepted, reported, lost, refuted],
    LAST_LINE,
  ],
  [
    'a run interrupted too often fails when somebody else opened its pull request',
    [...interruptions, granted, accepted, reported, lost, confirmedBy('other')],
    LAST_LINE,
  ],
  [
    'a pull request that is not the run’s is dropped while the worker works',
    [granted, accepted, reported, refuted, lost],
  ],
  [
    'a pull request of an earlier lease does not complete a run that lost its lease',
    [granted, accepted, lost],
    { input: pulledBefore },
  ],
  ['a run that lost its lease too often in a row fails', [...interruptions, granted, accepted, lost]],
  [
    'a follow-up that lost its lease too often leaves its run completed',
    [...interruptions, granted, accepted, lost],
    { input: followUp },
  ],
  [
    'the costs of an ended lease come in front of those of the current one',
    [granted, accepted, lost, granted, accepted, charged, settled],
  ],
  ['the costs of an ended lease reach a run in the queue', [granted, accepted, charged, lost, settled]],
  [
    'finished work that could not be published is published again, without an agent and at no attempt',
    [
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
  ],
  [
    'finished work waits longer after each try, until something changes',
    [
      ...[granted, accepted, unpublished()],
      ...[tryAgain, granted, accepted, unpublished()],
      ...[publishNow, publishNow, granted, publishNow, accepted, unpublished()],
    ],
  ],
  [
    'a person starts a run whose ticket a stranger edited',
    [editedByAuthor, { type: 'edit approved' }, granted, { type: 'edit approved' }, accepted],
  ],
  [
    'finished work that holds keys waits for a person, who says that it is published anyway',
    [
      ...[granted, accepted, runs, finalizes, withKeys],
      tryAgain,
      ...[publishAnyway, granted, accepted, unpublished()],
      ...[tryAgain, granted, accepted, ended('completed')],
    ],
  ],
  [
    'finished work that holds keys is searched again when a person retries it, and fails when its time is over',
    [granted, accepted, withKeys, publishNow, granted, accepted, runs, withKeys, keptNoLonger],
  ],
  [
    'finished work that was not published while its sandbox was kept fails the run',
    [granted, accepted, unpublished(), keptNoLonger],
  ],
  [
    'a lease outlives the sandbox with finished work by its own end only: declined',
    [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      keptNoLonger,
      { ...declined, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
  ],
  [
    'a lease outlives the sandbox with finished work by its own end only: lost in the queue',
    [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      keptNoLonger,
      { ...lost, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
    LAST_LINE,
  ],
  [
    'finished work is lost with the worker that holds it, but for the bundle',
    [granted, accepted, unpublished(), sandboxLost],
    LAST_LINE,
  ],
  [
    'a follow-up whose sandbox with finished work is lost leaves its run completed',
    [granted, accepted, unpublished(), sandboxLost],
    { input: followUp },
  ],
  [
    'a follow-up whose finished work was not published in time leaves its run completed',
    [granted, accepted, unpublished(), keptNoLonger],
    { input: followUp, onlyLastLine: true },
  ],
  [
    'a follow-up’s lease outlives the sandbox with finished work by its own end only: declined',
    [
      granted,
      accepted,
      unpublished(),
      tryAgain,
      granted,
      { ...declined, at: AFTER } as RunMachineEvent,
      keptNoLonger,
    ],
    { input: followUp, onlyLastLine: true },
  ],
  [
    'a follow-up’s lease outlives the sandbox with finished work by its own end only: lost in the queue',
    [
      ...[granted, accepted, unpublished(), tryAgain, granted],
      ...[{ ...lost, at: AFTER } as RunMachineEvent, keptNoLonger],
    ],
    { input: followUp, onlyLastLine: true },
  ],
  [
    'finished work whose sandbox is not kept waits for its deadline, which has passed',
    [granted, accepted, unpublished({ kept: T1 })],
    LAST_LINE,
  ],
  [
    'a run cancelled while its finished work waits keeps the work in its sandbox',
    [granted, accepted, unpublished(), cancel],
    LAST_LINE,
  ],
  [
    'a run cancelled while it publishes keeps the work in its sandbox',
    [granted, accepted, runs, finalizes, unpublished({ status: 'cancelled' })],
    LAST_LINE,
  ],
  [
    'a person’s words to a run whose finished work waits ask the agent again',
    [
      granted,
      accepted,
      unpublished(),
      { type: 'options changed', options: { effort: 'low' } },
      changed('Use SQLite.'),
      granted,
      accepted,
    ],
  ],
  [
    'finished work whose worker has lost it fails the run',
    [granted, accepted, unpublished(), tryAgain, granted, accepted, ended('failed', 'the sandbox is gone')],
    LAST_LINE,
  ],
  [
    'a retry of a run with unpublished work publishes first',
    [granted, accepted, unpublished()],
    { input: { ...input, publishing: { tries: 0, nextAt: null, why: 'x', startedAt: T0, result: null } } },
  ],
  ['no event after the end has an effect', [cancel, granted, accepted, cancel, broken]],
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
    ([what, given, before, events]): TrailRow<RunMachineEvent> => [
      `${state}: ${what}`,
      [...before, granted, accepted, ...stateEvents, ...events],
      { input: given, onlyLastLine: true },
    ],
  ),
)

trailTests(runMachine, input, [...stories, ...inEveryState])

/**
 * The run machine: an active run, queued or with a worker.
 *
 * The states are the run's statuses, word for word. Reports of a worker reach the run only through its current lease.
 * When the run completes, fails or is cancelled, the actor ends and the record stays; a retry or a follow-up spawns a
 * new actor from the record.
 */
import { assign, setup } from 'xstate'
import { extend } from '../../core/extend.ts'
import type { ActorSnapshot, Write } from '../../core/ports/store.ts'
import { labelFor } from '../../core/run/cost.ts'
import { approveEdit, followTicket, mayFollowTicket } from '../../core/run/edited-ticket.ts'
import {
  interruptionError,
  isInterrupted,
  isUnbegun,
  withoutInterruption,
} from '../../core/run/interruption.ts'
import {
  dropUnpublished,
  isUnpublished,
  keptWorkError,
  type Publishing,
  waitToPublish,
} from '../../core/run/publishing.ts'
import { confirmPull, dropPull } from '../../core/run/run-pull.ts'
import {
  acceptRun,
  cancelRun,
  completeWithPull,
  failRun,
  finishRun,
  isActive,
  patchRun,
  requeueRun,
  revertFollowUp,
  updatePullState,
} from '../../core/run/run-transitions.ts'
import { isSetback } from '../../core/run/setback.ts'
import { type LeaseShare, settleCosts } from '../../core/run/settle-costs.ts'
import { RunFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import type { PullState, Run, RunOptions, RunPull, Ticket } from '../../protocol/run.ts'
import { LEASE } from '../leases/lease.names.ts'
import { defineActions, eventTo } from '../runtime/actions.ts'
import { type ActorKind, kindName, type SnapshotSplit } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import {
  addEarlierResult,
  afterDue,
  afterOptionsChanged,
  afterSandboxLost,
  explainUnpublished,
  hasLostSandbox,
  instantOf,
  isHeldForKeys,
  isSandboxKept,
  keepBundle,
  mayPublishNow,
  sandboxLostError,
  showExecution,
  showStart,
  waitsForHolder,
} from './unpublished-work.ts'

/** A run fails after this many lost leases in a row. */
export const INTERRUPTIONS_MAX = 3
/** From this dispatch on, a run that is given back before its agent began fails; before, it is queued again. */
export const UNBEGUN_DISPATCHES_MAX = 20

/** The actor kind of runs. */
export const RUN = kindName<RunContext, RunMachineEvent, RunInput>('run')

export interface RunContext extends RunFields {
  readonly run: Run
}

/** Whether the run is in the queue and no lease has been granted for it. */
export const isWaiting = ({ run, lease }: RunContext): boolean => run.status === 'queued' && lease === null

export interface RunInput {
  /** The record as it is queued. */
  readonly run: Run
  readonly job: RunFields['job']
  readonly woken: RunFields['woken']
  readonly earlier: RunFields['earlier']
  /** How many dispatches earlier actors of this run had accepted. */
  readonly attempts: number
  /** Id and number of the follow-up, when this is one. */
  readonly followUp?: RunFields['followUp']
  /** Only what the run's sandbox holds is published. */
  readonly publishing?: Publishing
}

interface RunEndReport {
  readonly leaseId: string
  readonly workerId: string
  readonly at: string
  readonly outcome: RunOutcome
  readonly retentionHours: number
  /** A person cancelled the run meanwhile. */
  readonly unwanted?: true
  /** The pull request that the outcome names. */
  readonly pull?: RunPull
}

/** A report of the current lease's worker. `pull`: the pull request that the patch names. */
interface RunPatchReport {
  readonly workerId: string
  readonly patch: RunPatch
  readonly pull?: RunPull
}

/** An answer of the code host about the address that a worker reported. */
interface PullAnswer {
  readonly at: string
  /** The address that was asked about. */
  readonly asked: string
}

export type RunMachineEvent =
  | { readonly type: 'granted'; readonly leaseId: string; readonly place?: RunFields['place'] }
  | { readonly type: 'declined'; readonly leaseId: string; readonly at: string }
  | {
      readonly type: 'accepted'
      readonly leaseId: string
      readonly workerId: string
      /** Unknown after a restart of the host. */
      readonly workerName?: string | undefined
      readonly at: string
    }
  | ({ readonly type: 'patched' } & RunPatchReport)
  | ({ readonly type: 'patched to running' } & RunPatchReport)
  | ({ readonly type: 'patched to finalizing' } & RunPatchReport)
  | ({ readonly type: 'ended completed' } & RunEndReport)
  | ({ readonly type: 'ended failed' } & RunEndReport)
  | ({ readonly type: 'ended cancelled' } & RunEndReport)
  | { readonly type: 'lease lost'; readonly leaseId: string; readonly at: string; readonly reason: string }
  /** Something changed that may let the run's work be published now. */
  | {
      readonly type: 'publish now'
      /** Also when it holds keys: a person says so. */
      readonly anyway?: true
      /** The digest of the keys that this person was shown. */
      readonly shownKeys?: string
    }
  | { readonly type: 'deadline.publish' }
  /** The sandbox with the run's work is kept no longer. */
  | { readonly type: 'deadline.kept'; readonly at: number }
  | { readonly type: 'sandbox lost'; readonly at: string; readonly reason: string }
  /** A person retried the waiting run with other words or another agent. */
  | { readonly type: 'options changed'; readonly options: RunOptions }
  /** A person wants the run with the words that its ticket has now. */
  | { readonly type: 'edit approved' }
  /** The tracker lists the run's ticket with other words than those in the run's record. */
  | { readonly type: 'ticket edited'; readonly ticket: Ticket }
  /** `kept`: the reason is stored as the run's error. */
  | { readonly type: 'cancel requested'; readonly at: string; readonly reason: string; readonly kept?: true }
  /** The code host returned the state of the run's pull request. */
  | {
      readonly type: 'pull state reported'
      readonly at: string
      readonly url: string
      readonly state: PullState
    }
  | ({
      readonly type: 'pull confirmed'
      readonly pull: RunPull
      readonly url: string
      readonly state: PullState
      readonly opener: 'run' | 'other'
    } & PullAnswer)
  /** The pull request is not the run's. */
  | ({ readonly type: 'pull refuted'; readonly reason: string } & PullAnswer)
  /** The code host could not be asked. */
  | ({ readonly type: 'pull unanswered'; readonly reason: string } & PullAnswer)
  /** The run has waited for the code host for as long as a run may. */
  | ({ readonly type: 'pull answer overdue'; readonly reason: string } & PullAnswer)
  | { readonly type: 'cancel enforced'; readonly leaseId: string; readonly at: string }
  /** The pull request can't be followed up any more. */
  | { readonly type: 'pull gone'; readonly at: string; readonly reason: string }
  /** The worker of an ended lease has reported what the lease's execution cost. */
  | { readonly type: 'costs settled'; readonly share: LeaseShare; readonly costs: readonly CostEntry[] }
  /** The lease's actor was given up because of a bug. */
  | { readonly type: 'lease actor failed'; readonly at: string; readonly reason: string }

export type PullAnswerEvent = Extract<RunMachineEvent, PullAnswer>

const { sendEvent, setDeadline, cancelDeadline, endActor } = defineActions<
  RunContext,
  RunMachineEvent,
  never
>()

export type RunActionFacts = { readonly context: RunContext; readonly event: RunMachineEvent }

const label = ({ job, attempts, followUp }: RunContext): string => labelFor(job, followUp?.number ?? attempts)

/** The label of the current lease's costs. A lease that was never accepted counts as the next attempt. */
export function costLabelOf(context: RunContext): string {
  const { run, attempts } = context
  return label(run.status === 'queued' ? { ...context, attempts: attempts + 1 } : context)
}

/** The entries of the current lease among the run's costs. */
export function leaseShareOf(context: RunContext): LeaseShare {
  const from = costsBefore(context)
  return { label: costLabelOf(context), from, entries: context.run.costs.slice(from) }
}

/** A queued run has no costs of a current lease. */
const costsBefore = ({ run, costsBefore: before }: RunContext): number =>
  isActive(run.status) ? before : run.costs.length

function afterSettled({ context, event }: RunActionFacts): Partial<RunContext> {
  if (event.type !== 'costs settled') return {}
  return settleCosts(context.run, costsBefore(context), event.share, event.costs)
}

function reasonOf(event: RunMachineEvent): string {
  if (event.type === 'pull state reported') return `its pull request is ${event.state}`
  return 'reason' in event ? event.reason : 'cancelled'
}

function afterPatch({ context, event }: RunActionFacts): Partial<RunContext> {
  if (!('patch' in event)) return {}
  const { patch, workerId, pull } = event
  const run = patchRun(context.run, patch, {
    workerId,
    costsBefore: context.costsBefore,
    label: label(context),
    ...(pull === undefined ? {} : { pull }),
  })
  return {
    run,
    opened: context.opened || patch.prUrl !== undefined,
    opener: run.prUrl === context.run.prUrl ? context.opener : null,
  }
}

// ---- adoption ------------------------------------------------------------------------------------------------------

/** The run waits in the queue, and the scheduler leaves it there, until the code host has answered. */
function afterLostWithPull({ context, event }: RunActionFacts): Partial<RunContext> {
  const since = instantOf(event)
  const startedAt = context.run.startedAt ?? null
  return {
    run: requeueRun(context.run, interruptionError(reasonOf(event)), since),
    lease: null,
    interruptions: context.interruptions + 1,
    adoption: { since, startedAt, reason: null },
  }
}

function afterAdopted({ context, event }: RunActionFacts): Partial<RunContext> {
  const startedAt = context.adoption?.startedAt ?? context.run.startedAt
  const { queueReason: _, ...run } = completeWithPull(context.run, instantOf(event))
  return { run: startedAt === undefined ? run : { ...run, startedAt }, lease: null, adoption: null }
}

function isAboutPull({ context, event }: RunActionFacts): boolean {
  return 'asked' in event && event.asked === context.run.prUrl
}

function afterConfirmed(facts: RunActionFacts): Partial<RunContext> {
  const { context, event } = facts
  if (event.type !== 'pull confirmed' || !isAboutPull(facts)) return {}
  return { run: confirmPull(context.run, event.pull, event), opener: event.opener }
}

function afterRefuted(facts: RunActionFacts): Partial<RunContext> {
  return isAboutPull(facts) ? { run: dropPull(facts.context.run), opened: false, opener: null } : {}
}

/** The code host confirms that the waiting run's pull request was opened by the run. */
const adoptsPull = (facts: RunActionFacts): boolean =>
  facts.context.adoption !== null &&
  isAboutPull(facts) &&
  facts.event.type === 'pull confirmed' &&
  facts.event.opener === 'run'

const isInterruptedTooOften = (facts: RunActionFacts): boolean =>
  facts.context.adoption !== null && isAboutPull(facts) && facts.context.interruptions >= INTERRUPTIONS_MAX

function afterEnd({ context, event }: RunActionFacts): Partial<RunContext> {
  if (!('outcome' in event)) return {}
  const { workerId, at, outcome, retentionHours, pull } = event
  const by = { workerId, costsBefore: context.costsBefore, label: label(context), now: at, retentionHours }
  const run = finishRun(context.run, outcome, pull === undefined ? by : { ...by, pull })
  return { run: addEarlierResult(run, context), lease: null }
}

/** A run that fails or is cancelled may have left work that is not published. */
function afterFinished(facts: RunActionFacts): Partial<RunContext> {
  const ended = afterLastEnd(facts)
  return ended.run === undefined ? ended : { ...ended, run: explainUnpublished(ended.run, facts) }
}

/** The words of the last interruption alone would not tell why this one is not followed by another attempt. */
function afterLastEnd(facts: RunActionFacts): Partial<RunContext> {
  const { context, event } = facts
  const ended = afterEnd(facts)
  const { run } = ended
  if (run?.error === undefined || !('outcome' in event) || event.unwanted === true) return ended
  if (!isInterrupted(event.outcome) || mayTryAgain({ context })) return ended
  return { ...ended, run: { ...run, error: interruptedTooOften(withoutInterruption(run.error)) } }
}

const interruptedTooOften = (last: string): string =>
  `interrupted ${INTERRUPTIONS_MAX} times in a row, the last time because ${last}`

/** The work waits in the sandbox of its worker. */
function afterUnpublished(facts: RunActionFacts): Partial<RunContext> {
  const { context, event } = facts
  const ended = afterEnd(facts).run ?? context.run
  const why = ended.error ?? interruptionError(reasonOf(event))
  const before = context.publishing
  return { ...waitToPublish(ended, context.run.result, { before, why, now: instantOf(event) }), lease: null }
}

/** The agent is done, and the worker keeps its work. */
function waitsToPublish(facts: RunActionFacts): boolean {
  const { context, event } = facts
  if (!('outcome' in event) || event.unwanted === true || !isUnpublished(event.outcome)) return false
  return isSandboxKept(afterEnd(facts).run ?? context.run)
}

function afterCancelled({ context, event }: RunActionFacts): Partial<RunContext> {
  const { run, publishing } = context
  const reason = 'kept' in event && event.kept ? event.reason : undefined
  const error = publishing === null ? reason : keptWorkError(run, reason ?? 'it was cancelled')
  return { run: showExecution(cancelRun(run, instantOf(event), error), publishing), lease: null }
}

function afterFollowUpSandboxLost(facts: RunActionFacts): Partial<RunContext> {
  const run = dropUnpublished(facts.context.run)
  return { run: restoreEarlierEnd(facts, run, sandboxLostError(facts)), lease: null }
}

function afterAccepted({ context, event }: RunActionFacts): Partial<RunContext> {
  if (event.type !== 'accepted') return {}
  const { publishing, attempts, place } = context
  const accepted = acceptRun(context.run, extend(event, { now: event.at }))
  const run = place === null ? accepted : extend(accepted, { remote: place.remote })
  return {
    run: publishing === null ? dropUnpublished(run) : showStart(run, publishing),
    lease: event.leaseId,
    attempts: publishing === null ? attempts + 1 : attempts,
    costsBefore: context.run.costs.length,
    opened: false,
    doneAt: null,
  }
}

/** After a failed follow-up the run is completed as before, with an error that names the failure. */
function afterFollowUpFailed(facts: RunActionFacts): Partial<RunContext> {
  const ended = afterLastEnd(facts)
  return { ...ended, run: restoreEarlierEnd(facts, ended.run ?? facts.context.run) }
}

/** The worker ended during the run: keeps its costs, its sandbox and its session, and queues the same job again. */
function afterInterrupted(facts: RunActionFacts): Partial<RunContext> {
  return { ...afterSetback(facts), interruptions: facts.context.interruptions + 1 }
}

/** The worker gave the run back before its agent began, so this is no interruption. */
function afterUnbegun({ context, event }: RunActionFacts): Partial<RunContext> {
  const why = 'outcome' in event ? event.outcome.error : undefined
  const reason = interruptionError(withoutInterruption(why ?? 'the worker ended before the agent began'))
  return { run: requeueRun(context.run, reason, instantOf(event)), lease: null }
}

/** The worker gave the run back: keeps the costs and queues the run again, with the worker's reason. */
function afterSetback(facts: RunActionFacts): Partial<RunContext> {
  const { context, event } = facts
  const { error, result: _, ...ended } = afterEnd(facts).run ?? context.run
  const { result } = context.run
  const run = requeueRun(result === undefined ? ended : { ...ended, result }, error, instantOf(event))
  return { run, lease: null }
}

function restoreEarlierEnd(
  { context, event }: RunActionFacts,
  run: Run,
  why = run.error ?? whyCancelled(run),
): Run {
  const reverted = revertFollowUp(run, context.earlier, why, instantOf(event))
  return keepBundle(reverted, context.publishing?.result ?? run.result)
}

function whyCancelled({ prState }: Run): string {
  return prState === 'merged' || prState === 'closed' ? `its pull request is ${prState}` : 'it was cancelled'
}

/** A merged or closed pull request can't be followed up any more. */
function endsFollowUp({ context, event }: RunActionFacts): boolean {
  if (event.type !== 'pull state reported' || context.job !== 'follow-up' || event.url !== context.run.prUrl)
    return false
  return event.state === 'merged' || event.state === 'closed'
}

const mayTryAgain = ({ context }: { readonly context: RunContext }): boolean =>
  context.interruptions + 1 < INTERRUPTIONS_MAX

const beginsAgain = ({ context, event }: RunActionFacts): boolean =>
  'outcome' in event && event.unwanted !== true && isInterrupted(event.outcome) && mayTryAgain({ context })

const isGivenBackUnbegun = ({ event }: RunActionFacts): boolean =>
  'outcome' in event && event.unwanted !== true && isUnbegun(event.outcome)

/** A repository may end the daemon of each worker that prepares its run, so this has a limit. */
const isHandedBack = (facts: RunActionFacts): boolean =>
  isGivenBackUnbegun(facts) && facts.context.attempts < UNBEGUN_DISPATCHES_MAX

/** The run failed of something that no run can change. */
const meetsSetback = (facts: RunActionFacts): boolean => {
  const { context, event } = facts
  if (context.publishing !== null || !('outcome' in event) || event.unwanted === true) return false
  return isSetback(event.outcome) && !isGivenBackUnbegun(facts)
}

const patchTransitions = {
  patched: { actions: 'patch' },
  'patched to running': { actions: 'patch' },
  'patched to finalizing': { actions: 'patch' },
} as const

/** Before finalizing nothing of the follow-up is published, so it may be cancelled when its pull request is over. */
const pullStateTransitions = {
  'pull state reported': [
    { guard: 'endsFollowUp', actions: ['recordPullState', 'requestCancel'] },
    { actions: 'recordPullState' },
  ],
} as const

const PUBLISH_LATER = ['awaitPublishing', 'setPublishDeadline', 'setKeptDeadline'] as const
const SANDBOX_LOST = [
  { guard: 'isFollowUpWithoutSandbox', target: 'completed', actions: 'loseFollowUpSandbox' },
  { guard: 'hasLostSandbox', target: 'failed', actions: 'loseSandbox' },
] as const
/** The deadline has no effect while a worker is asked, so it may have passed meanwhile. */
const RELEASED = [
  { guard: 'waitsForHolder', actions: ['release', 'setKeptDeadline'] },
  { actions: 'release' },
] as const

const activeTransitions = {
  'ended completed': { target: 'completed', actions: 'finish' },
  'ended failed': [
    { guard: 'isHandedBack', target: 'queued', actions: 'requeueUnbegun' },
    { guard: 'waitsForPerson', target: 'queued', actions: ['awaitPublishing', 'setKeptDeadline'] },
    { guard: 'waitsToPublish', target: 'queued', actions: PUBLISH_LATER },
    { guard: 'meetsSetback', target: 'queued', actions: 'giveBack' },
    { guard: 'beginsAgain', target: 'queued', actions: 'requeueInterrupted' },
    { guard: 'isFollowUp', target: 'completed', actions: 'finishFollowUp' },
    { guard: 'isGivenBackUnbegun', target: 'failed', actions: 'giveUpUnbegun' },
    { target: 'failed', actions: 'finish' },
  ],
  'ended cancelled': [
    { guard: 'isFollowUp', target: 'completed', actions: 'finishFollowUp' },
    { target: 'cancelled', actions: 'finish' },
  ],
  'lease lost': [
    { guard: 'hasOpenedPull', target: 'completed', actions: 'adopt' },
    { guard: 'awaitsPullAnswer', target: 'queued', actions: 'awaitPullAnswer' },
    { guard: 'waitsForHolder', target: 'queued', actions: PUBLISH_LATER },
    ...SANDBOX_LOST,
    { guard: 'mayTryAgain', target: 'queued', actions: 'requeue' },
    { guard: 'isFollowUp', target: 'completed', actions: 'giveUpFollowUp' },
    { target: 'failed', actions: 'giveUp' },
  ],
  'cancel requested': { actions: 'requestCancel' },
  'cancel enforced': [
    { guard: 'isFollowUp', target: 'completed', actions: 'cancelFollowUp' },
    { target: 'cancelled', actions: 'cancel' },
  ],
  'lease actor failed': [
    { guard: 'isFollowUp', target: 'completed', actions: 'failFollowUp' },
    { target: 'failed', actions: 'fail' },
  ],
} as const

export const runMachine = setup({
  types: {} as { context: RunContext; events: RunMachineEvent; input: RunInput },
  guards: {
    isFollowUp: ({ context }) => context.job === 'follow-up',
    hasNoLease: ({ context }) => context.lease === null,
    mayFollowTicket: ({ context }) => mayFollowTicket(context),
    waitsForPerson: (facts) => waitsToPublish(facts) && isHeldForKeys(facts),
    waitsToPublish,
    waitsForHolder,
    hasLostSandbox,
    isFollowUpWithoutSandbox: (facts) => facts.context.job === 'follow-up' && hasLostSandbox(facts),
    isFollowUpToPublish: (facts) => facts.context.job === 'follow-up' && mayPublishNow(facts),
    mayPublishNow,
    endsFollowUp,
    hasOpenedPull: ({ context }) =>
      context.job === 'run' && context.opened && context.opener === 'run' && context.run.prUrl !== undefined,
    awaitsPullAnswer: ({ context }) =>
      context.job === 'run' && context.opened && context.opener === null && context.run.prUrl !== undefined,
    adoptsPull,
    isInterruptedTooOften,
    awaitsAdoption: (facts) => facts.context.adoption !== null && isAboutPull(facts),
    mayTryAgain,
    beginsAgain,
    isGivenBackUnbegun,
    isHandedBack,
    meetsSetback,
  },
  actions: {
    grant: assign(({ event }) =>
      event.type === 'granted' ? { lease: event.leaseId, place: event.place ?? null, adoption: null } : {},
    ),
    release: assign({ lease: null }),
    applyOptions: assign(afterOptionsChanged),
    awaitPublishing: assign(afterUnpublished),
    publishNow: assign(afterDue),
    loseSandbox: assign(afterSandboxLost),
    loseFollowUpSandbox: assign(afterFollowUpSandboxLost),
    setPublishDeadline: setDeadline(({ context }) => ({
      name: 'publish',
      at: Date.parse(context.publishing?.nextAt ?? ''),
    })),
    cancelPublishDeadline: cancelDeadline('publish'),
    setKeptDeadline: setDeadline(({ context }) => ({
      name: 'kept',
      at: Date.parse(context.run.sandbox.retainedUntil ?? ''),
    })),
    approveEdit: assign(({ context }) => ({ run: approveEdit(context.run, context.run.ticket) })),
    followTicket: assign(({ context, event }) =>
      event.type === 'ticket edited' ? { run: followTicket(context.run, event.ticket) } : {},
    ),
    accept: assign(afterAccepted),
    patch: assign(afterPatch),
    settleCosts: assign(afterSettled),
    finish: assign(afterFinished),
    finishFollowUp: assign(afterFollowUpFailed),
    requeueInterrupted: assign(afterInterrupted),
    requeueUnbegun: assign(afterUnbegun),
    giveBack: assign(afterSetback),
    adopt: assign(afterAdopted),
    awaitPullAnswer: assign(afterLostWithPull),
    confirmPull: assign(afterConfirmed),
    dropPull: assign(afterRefuted),
    stopWaitingForPull: assign({ adoption: null }),
    recordPullProblem: assign(({ context, event }) =>
      context.adoption !== null && 'reason' in event
        ? { adoption: { ...context.adoption, reason: event.reason } }
        : {},
    ),
    requeue: assign(({ context, event }) => ({
      doneAt: context.run.status === 'finalizing' ? instantOf(event) : null,
      run: requeueRun(
        context.run,
        interruptionError('reason' in event ? event.reason : 'lost'),
        instantOf(event),
      ),
      lease: null,
      interruptions: context.interruptions + 1,
    })),
    giveUp: assign(({ context, event }) => ({
      run: failRun(
        context.run,
        interruptedTooOften('reason' in event ? event.reason : 'it was lost'),
        instantOf(event),
      ),
      lease: null,
    })),
    giveUpUnbegun: assign((facts) => ({
      run: failRun(
        facts.context.run,
        `given back before its agent began, as dispatch ${facts.context.attempts} of this run; the last time because ${'outcome' in facts.event ? facts.event.outcome.error : 'it was lost'}`,
        instantOf(facts.event),
      ),
      lease: null,
    })),
    giveUpWaiting: assign(({ context, event }) => ({
      run: failRun(
        context.run,
        `interrupted ${INTERRUPTIONS_MAX} times in a row, and the pull request is not its own`,
        instantOf(event),
      ),
    })),
    giveUpFollowUp: assign((facts) => ({
      run: restoreEarlierEnd(facts, facts.context.run, `interrupted ${INTERRUPTIONS_MAX} times in a row`),
      lease: null,
    })),
    cancel: assign(afterCancelled),
    recordPullState: assign(({ context, event }) =>
      event.type === 'pull state reported'
        ? { run: updatePullState(context.run, event.url, event.state) }
        : {},
    ),
    cancelFollowUp: assign((facts) => ({
      run: restoreEarlierEnd(facts, facts.context.run, whyCancelled(facts.context.run)),
      lease: null,
    })),
    fail: assign(({ context, event }) => {
      const run = failRun(context.run, 'reason' in event ? event.reason : 'internal error', instantOf(event))
      return { run: showExecution(run, context.publishing), lease: null }
    }),
    failFollowUp: assign((facts) => ({
      run: restoreEarlierEnd(
        facts,
        facts.context.run,
        'reason' in facts.event ? facts.event.reason : 'internal error',
      ),
      lease: null,
    })),
    requestCancel: sendEvent(({ context, event }) =>
      context.lease === null
        ? []
        : eventTo(LEASE, context.lease, { type: 'cancel requested', reason: reasonOf(event) }),
    ),
    end: endActor(),
  },
}).createMachine({
  id: 'run',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    run: input.run,
    job: input.job,
    lease: null,
    attempts: input.attempts,
    costsBefore: input.run.costs.length,
    interruptions: 0,
    opened: false,
    place: null,
    opener: null,
    adoption: null,
    doneAt: null,
    publishing: input.publishing ?? null,
    earlier: input.earlier,
    woken: input.woken,
    followUp: input.followUp ?? null,
  }),
  initial: 'queued',
  on: {
    'pull state reported': { actions: 'recordPullState' },
    'pull confirmed': { actions: 'confirmPull' },
    'pull refuted': { actions: 'dropPull' },
    'costs settled': { actions: 'settleCosts' },
  },
  states: {
    queued: {
      description: 'the run waits for a free slot; with a lease, for its worker to accept the dispatch',
      on: {
        granted: { actions: 'grant' },
        declined: RELEASED,
        'options changed': { guard: 'hasNoLease', actions: 'applyOptions' },
        'publish now': {
          guard: 'mayPublishNow',
          actions: ['publishNow', 'cancelPublishDeadline', 'setKeptDeadline'],
        },
        'deadline.publish': { guard: 'mayPublishNow', actions: 'publishNow' },
        'deadline.kept': [
          { guard: 'isFollowUpToPublish', target: 'completed', actions: 'loseFollowUpSandbox' },
          { guard: 'mayPublishNow', target: 'failed', actions: 'loseSandbox' },
        ],
        'sandbox lost': [
          { guard: 'isFollowUpToPublish', target: 'completed', actions: 'loseFollowUpSandbox' },
          { guard: 'mayPublishNow', target: 'failed', actions: 'loseSandbox' },
        ],
        'ticket edited': { guard: 'mayFollowTicket', actions: 'followTicket' },
        'edit approved': { guard: 'hasNoLease', actions: 'approveEdit' },
        accepted: { target: 'preparing', actions: 'accept' },
        'cancel requested': [
          { guard: 'isFollowUp', target: 'completed', actions: ['requestCancel', 'cancelFollowUp'] },
          { target: 'cancelled', actions: ['requestCancel', 'cancel'] },
        ],
        'lease lost': RELEASED,
        'pull state reported': [
          {
            guard: 'endsFollowUp',
            target: 'completed',
            actions: ['recordPullState', 'requestCancel', 'cancelFollowUp'],
          },
          { actions: 'recordPullState' },
        ],
        'pull confirmed': [
          { guard: 'adoptsPull', target: 'completed', actions: ['confirmPull', 'adopt'] },
          { guard: 'isInterruptedTooOften', target: 'failed', actions: ['confirmPull', 'giveUpWaiting'] },
          { guard: 'awaitsAdoption', actions: ['confirmPull', 'stopWaitingForPull'] },
          { actions: 'confirmPull' },
        ],
        'pull refuted': [
          { guard: 'isInterruptedTooOften', target: 'failed', actions: ['dropPull', 'giveUpWaiting'] },
          { guard: 'awaitsAdoption', actions: ['dropPull', 'stopWaitingForPull'] },
          { actions: 'dropPull' },
        ],
        'pull unanswered': { guard: 'awaitsAdoption', actions: 'recordPullProblem' },
        'pull answer overdue': { guard: 'awaitsAdoption', target: 'failed', actions: 'fail' },
        'pull gone': {
          guard: 'isFollowUp',
          target: 'completed',
          actions: ['requestCancel', 'failFollowUp'],
        },
        'lease actor failed': activeTransitions['lease actor failed'],
      },
    },
    preparing: {
      description: 'the worker prepares the sandbox',
      on: {
        ...activeTransitions,
        ...patchTransitions,
        ...pullStateTransitions,
        'patched to running': { target: 'running', actions: 'patch' },
        'patched to finalizing': { target: 'finalizing', actions: 'patch' },
      },
    },
    running: {
      description: 'the agent works',
      on: {
        ...activeTransitions,
        ...patchTransitions,
        ...pullStateTransitions,
        'patched to finalizing': { target: 'finalizing', actions: 'patch' },
      },
    },
    finalizing: {
      description: 'the agent is done; the worker pushes its commits and opens the pull request',
      on: { ...activeTransitions, ...patchTransitions },
    },
    completed: { description: 'the run ended with a result', entry: 'end' },
    failed: { description: 'the run ended with an error', entry: 'end' },
    cancelled: { description: 'the run was cancelled', entry: 'end' },
  },
})

// ---- on disk -------------------------------------------------------------------------------------------------------

const split: SnapshotSplit<RunContext> = {
  storedContext(context) {
    const { run: _, ...fields } = context
    return fields
  },
  rowWrites(key, context, durable): Write[] {
    return context.run === durable?.run ? [] : [{ table: 'run', id: key, run: context.run }]
  },
  joinContext(key, kept, database) {
    const run = database.runs.get(key)
    return run === undefined ? undefined : { ...(kept as RunFields), run }
  },
}

/** Version 1 stored neither the id of the follow-up nor when the run had started before it. */
function liftFromV1({ c, ...record }: ActorSnapshot): ActorSnapshot {
  const { earlier, ...fields } = c as { readonly earlier: object | null }
  const before = earlier === null ? null : { ...earlier, startedAt: null }
  return { ...record, v: 2, c: { ...fields, earlier: before, followUp: null } }
}

/** Version 2 remembered neither the job's place nor what the code host says of the pull request. */
function liftFromV2({ c, ...record }: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 3, c: { ...(c as object), place: null, opener: null, adoption: null } }
}

/** Version 3 knew no instructions, so its follow-ups have none. */
function liftFromV3(record: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 4 }
}

/** Version 4 published nothing again. */
function liftFromV4({ c, ...record }: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 5, c: { ...(c as object), publishing: null } }
}

/** Version 5 waited for no worker on which an agent was done. */
function liftFromV5({ c, ...record }: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 6, c: { ...(c as object), doneAt: null } }
}

/** Version 6 knew no word of a person that work with keys is published. */
function liftFromV6(record: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 7 }
}

/** The word of version 7 is for whatever keys the work holds, because no digest says which ones were shown. */
function liftFromV7(record: ActorSnapshot): ActorSnapshot {
  return { ...record, v: 8 }
}

export const runKind: ActorKind<RunContext> = {
  name: RUN,
  logic: runMachine,
  codec: createSnapshotCodec({
    version: 8,
    states: {
      queued: 'q',
      preparing: 'p',
      running: 'r',
      finalizing: 'f',
      completed: 'C',
      failed: 'F',
      cancelled: 'X',
    },
    schema: snapshotShape(RunFields),
    lifts: {
      1: liftFromV1,
      2: liftFromV2,
      3: liftFromV3,
      4: liftFromV4,
      5: liftFromV5,
      6: liftFromV6,
      7: liftFromV7,
    },
  }),
  split,
  trustedDeadlines: ['kept'],
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    finally: 'closed',
  },
}

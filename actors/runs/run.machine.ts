/**
 * The run machine: an active run, queued or with a worker.
 *
 * The states are the run's statuses, word for word. Reports of a worker reach the run only through its current lease.
 * When the run completes, fails or is cancelled, the actor ends and the record stays; a retry or a follow-up spawns a
 * new actor from the record.
 */
import { assign, setup } from 'xstate'
import type { ActorSnapshot, Write } from '../../core/ports.ts'
import { labelFor } from '../../core/run/cost.ts'
import { interruptionError, isInterrupted } from '../../core/run/interruption.ts'
import {
  acceptRun,
  cancelRun,
  completeWithPull,
  failRun,
  finishRun,
  patchRun,
  requeueRun,
  revertFollowUp,
  updatePullState,
} from '../../core/run/run-transitions.ts'
import { RunFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import { INTERRUPTIONS_MAX, RUN_ARTIFACTS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run } from '../../protocol/run.ts'
import { LEASE } from '../leases/lease.names.ts'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind, SnapshotSplit } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import { RUN } from './run.names.ts'

export interface RunContext extends RunFields {
  readonly run: Run
}

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
}

interface RunEndReport {
  readonly leaseId: string
  readonly workerId: string
  readonly at: string
  readonly outcome: RunOutcome
  readonly retentionHours: number
  /** A person cancelled the run meanwhile. */
  readonly unwanted?: true
}

export type RunMachineEvent =
  | { readonly type: 'granted'; readonly leaseId: string }
  | { readonly type: 'declined'; readonly leaseId: string; readonly at: string }
  | { readonly type: 'accepted'; readonly leaseId: string; readonly workerId: string; readonly at: string }
  | { readonly type: 'patched'; readonly workerId: string; readonly patch: RunPatch }
  | { readonly type: 'patched to running'; readonly workerId: string; readonly patch: RunPatch }
  | { readonly type: 'patched to finalizing'; readonly workerId: string; readonly patch: RunPatch }
  | ({ readonly type: 'ended completed' } & RunEndReport)
  | ({ readonly type: 'ended failed' } & RunEndReport)
  | ({ readonly type: 'ended cancelled' } & RunEndReport)
  | { readonly type: 'lease lost'; readonly leaseId: string; readonly at: string; readonly reason: string }
  /** `kept`: the reason is stored as the run's error. */
  | { readonly type: 'cancel requested'; readonly at: string; readonly reason: string; readonly kept?: true }
  /** The code host returned the state of the run's pull request. */
  | {
      readonly type: 'pull state reported'
      readonly at: string
      readonly url: string
      readonly state: PullState
    }
  | { readonly type: 'cancel enforced'; readonly leaseId: string; readonly at: string }
  /** The pull request can't be followed up any more. */
  | { readonly type: 'pull gone'; readonly at: string; readonly reason: string }
  /** The lease's actor was given up because of a bug. */
  | { readonly type: 'lease actor failed'; readonly at: string; readonly reason: string }

const { sendEvent, endActor } = defineActions<RunContext, RunMachineEvent, never>()

type RunActionFacts = { readonly context: RunContext; readonly event: RunMachineEvent }

const label = ({ job, attempts, followUp }: RunContext): string => labelFor(job, followUp?.number ?? attempts)
const instantOf = (event: RunMachineEvent): string => ('at' in event ? event.at : '')

function reasonOf(event: RunMachineEvent): string {
  if (event.type === 'pull state reported') return `its pull request is ${event.state}`
  return 'reason' in event ? event.reason : 'cancelled'
}

function afterPatch({ context, event }: RunActionFacts): Partial<RunContext> {
  if (!('patch' in event)) return {}
  const { patch, workerId } = event
  const run = patchRun(context.run, patch, {
    workerId,
    costsBefore: context.costsBefore,
    label: label(context),
  })
  return { run, opened: context.opened || patch.prUrl !== undefined }
}

function afterEnd({ context, event }: RunActionFacts): Partial<RunContext> {
  if (!('outcome' in event)) return {}
  const { workerId, at, outcome, retentionHours } = event
  const by = { workerId, costsBefore: context.costsBefore, label: label(context), now: at, retentionHours }
  const run = finishRun(context.run, outcome, by)
  return { run: context.job === 'follow-up' ? addEarlierArtifacts(run, context) : run, lease: null }
}

/** Adds the artifacts of a follow-up to those that the run had before. */
function addEarlierArtifacts(run: Run, { earlier }: RunContext): Run {
  const before = earlier?.result?.artifacts ?? []
  if (run.result === undefined || before.length === 0) return run
  const artifacts = [...new Set([...before, ...run.result.artifacts])].slice(0, RUN_ARTIFACTS_MAX)
  return { ...run, result: { ...run.result, artifacts } }
}

/** After a failed follow-up the run is completed as before, with an error that names the failure. */
function afterFollowUpFailed(facts: RunActionFacts): Partial<RunContext> {
  const ended = afterEnd(facts)
  return { ...ended, run: restoreEarlierEnd(facts, ended.run ?? facts.context.run) }
}

/** The worker ended during the follow-up: keeps the costs and queues the same follow-up again. */
function afterFollowUpInterrupted(facts: RunActionFacts): Partial<RunContext> {
  const { context, event } = facts
  const { error, result: _, ...ended } = afterEnd(facts).run ?? context.run
  const { result } = context.run
  const run = requeueRun(result === undefined ? ended : { ...ended, result }, error, instantOf(event))
  return { run, lease: null, interruptions: context.interruptions + 1 }
}

function restoreEarlierEnd(
  { context, event }: RunActionFacts,
  run: Run,
  why = run.error ?? whyCancelled(run),
): Run {
  return revertFollowUp(run, context.earlier, why, instantOf(event))
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

/** An interrupted follow-up may start again at any point; an agent's first work on a ticket may not. */
const beginsAgain = ({ context, event }: RunActionFacts): boolean =>
  context.job === 'follow-up' &&
  'outcome' in event &&
  event.unwanted !== true &&
  isInterrupted(event.outcome) &&
  mayTryAgain({ context })

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

const activeTransitions = {
  'ended completed': { target: 'completed', actions: 'finish' },
  'ended failed': [
    { guard: 'beginsAgain', target: 'queued', actions: 'requeueFollowUp' },
    { guard: 'isFollowUp', target: 'completed', actions: 'finishFollowUp' },
    { target: 'failed', actions: 'finish' },
  ],
  'ended cancelled': [
    { guard: 'isFollowUp', target: 'completed', actions: 'finishFollowUp' },
    { target: 'cancelled', actions: 'finish' },
  ],
  'lease lost': [
    { guard: 'hasOpenedPull', target: 'completed', actions: 'adopt' },
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
    endsFollowUp,
    hasOpenedPull: ({ context }) =>
      context.job === 'run' && context.opened && context.run.prUrl !== undefined,
    mayTryAgain,
    beginsAgain,
  },
  actions: {
    grant: assign(({ event }) => (event.type === 'granted' ? { lease: event.leaseId } : {})),
    release: assign({ lease: null }),
    accept: assign(({ context, event }) =>
      event.type === 'accepted'
        ? {
            run: acceptRun(context.run, { workerId: event.workerId, now: event.at }),
            lease: event.leaseId,
            attempts: context.attempts + 1,
            costsBefore: context.run.costs.length,
            opened: false,
          }
        : {},
    ),
    patch: assign(afterPatch),
    finish: assign(afterEnd),
    finishFollowUp: assign(afterFollowUpFailed),
    requeueFollowUp: assign(afterFollowUpInterrupted),
    adopt: assign(({ context, event }) => ({
      run: completeWithPull(context.run, instantOf(event)),
      lease: null,
    })),
    requeue: assign(({ context, event }) => ({
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
        `interrupted ${INTERRUPTIONS_MAX} times in a row, the last time because ${'reason' in event ? event.reason : 'it was lost'}`,
        instantOf(event),
      ),
      lease: null,
    })),
    giveUpFollowUp: assign((facts) => ({
      run: restoreEarlierEnd(facts, facts.context.run, `interrupted ${INTERRUPTIONS_MAX} times in a row`),
      lease: null,
    })),
    cancel: assign(({ context, event }) => ({
      run: cancelRun(context.run, instantOf(event), 'kept' in event && event.kept ? event.reason : undefined),
      lease: null,
    })),
    recordPullState: assign(({ context, event }) =>
      event.type === 'pull state reported'
        ? { run: updatePullState(context.run, event.url, event.state) }
        : {},
    ),
    cancelFollowUp: assign((facts) => ({
      run: restoreEarlierEnd(facts, facts.context.run, whyCancelled(facts.context.run)),
      lease: null,
    })),
    fail: assign(({ context, event }) => ({
      run: failRun(context.run, 'reason' in event ? event.reason : 'internal error', instantOf(event)),
      lease: null,
    })),
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
        : {
            to: { kind: LEASE, key: context.lease },
            event: {
              type: 'cancel requested',
              reason: reasonOf(event),
            },
          },
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
    earlier: input.earlier,
    woken: input.woken,
    followUp: input.followUp ?? null,
  }),
  initial: 'queued',
  on: { 'pull state reported': { actions: 'recordPullState' } },
  states: {
    queued: {
      description: 'the run waits for a free slot; with a lease, for its worker to accept the dispatch',
      on: {
        granted: { actions: 'grant' },
        declined: { actions: 'release' },
        accepted: { target: 'preparing', actions: 'accept' },
        'cancel requested': [
          { guard: 'isFollowUp', target: 'completed', actions: ['requestCancel', 'cancelFollowUp'] },
          { target: 'cancelled', actions: ['requestCancel', 'cancel'] },
        ],
        'lease lost': { actions: 'release' },
        'pull state reported': [
          {
            guard: 'endsFollowUp',
            target: 'completed',
            actions: ['recordPullState', 'requestCancel', 'cancelFollowUp'],
          },
          { actions: 'recordPullState' },
        ],
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

const split: SnapshotSplit = {
  storedContext(context) {
    const { run: _, ...fields } = context as RunContext
    return fields
  },
  rowWrites(key, context, durable): Write[] {
    const { run } = context as RunContext
    if (run === (durable as RunContext | undefined)?.run) return []
    return [{ table: 'run', id: key, run }]
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

export const runKind: ActorKind = {
  name: RUN,
  logic: runMachine,
  codec: createSnapshotCodec({
    version: 2,
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
    lifts: { 1: liftFromV1 },
  }),
  split,
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    finally: 'closed',
  },
}

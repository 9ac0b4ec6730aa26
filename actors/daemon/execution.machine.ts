/**
 * The state machine of one execution (one run under one lease), from its dispatch to the acknowledged completion.
 *
 * The actor's key is the lease id. The snapshot is on disk before the dispatch is accepted, and is deleted when the host
 * has acknowledged the completion or the lease is lost. A restarted daemon does not resume agents: it recovers the
 * outputs of each execution and reports `interrupted`, or `completed` when the pull request already existed. An execution
 * that ends before its agent began is given back to the host.
 * `stopping` and `abandoned` have no entry action, because `Executions.onStateChange` stops the processes at once:
 * an effect would wait for the commit, and a full disk must not keep a fenced run alive.
 */
import { assign, setup } from 'xstate'
import { deriveOutcome } from '../../core/daemon/outcome.ts'
import type { AgentOutcome, Progress, StopRequest } from '../../core/daemon/ports.ts'
import type { ActorSnapshot } from '../../core/ports/store.ts'
import { daemonEndedError } from '../../core/run/interruption.ts'
import { ExecutionFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { FailureKind, RunOutcome } from '../../protocol/frames.ts'
import type { ReportedSandbox } from '../../protocol/run-sandbox.ts'
import { defineActions, eventTo } from '../runtime/actions.ts'
import type { ActorKind, ImpliedOutput } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import { EXECUTION } from './daemon.names.ts'

export type ExecutionContext = ExecutionFields

export interface ExecutionInput {
  readonly leaseId: string
  readonly runId: string
  readonly workerId: string
  readonly expiresAt: string
  readonly retentionHours: number
}

export type ExecutionEvent =
  /** No older execution of the same run is left on this machine. */
  | { readonly type: 'older execution gone' }
  | { readonly type: 'prepared'; readonly progress: Progress }
  | { readonly type: 'preparation failed'; readonly reason: string; readonly failure?: FailureKind }
  | { readonly type: 'agent ended'; readonly agent: AgentOutcome }
  | { readonly type: 'progressed'; readonly progress: Progress }
  /** All costs of this lease so far. */
  | { readonly type: 'costs reported'; readonly costs: CostEntry[] }
  /** No process of the execution is left. `outcome`: the result of `finish`; null when the execution never got there. */
  | { readonly type: 'ended'; readonly outcome: RunOutcome | null }
  | { readonly type: 'recovered'; readonly sandbox: ReportedSandbox | undefined }
  | { readonly type: 'cancel requested'; readonly reason: string }
  /** The daemon ends at once. */
  | { readonly type: 'stop requested'; readonly reason: string }
  /** The lease is not valid any more: report nothing and push nothing to a code host. */
  | { readonly type: 'lease lost'; readonly how: StopRequest['how']; readonly reason: string }
  | { readonly type: 'daemon restarted'; readonly reason: string }
  /** The host has the completion on its disk. */
  | { readonly type: 'completion acknowledged' }

export type ExecutionEffect =
  | { readonly type: 'execution.accept'; readonly leaseId: string }
  | { readonly type: 'execution.start'; readonly leaseId: string }
  | { readonly type: 'execution.run agent'; readonly leaseId: string }
  | { readonly type: 'execution.finish'; readonly leaseId: string; readonly agent: AgentOutcome }
  | { readonly type: 'execution.recover'; readonly leaseId: string }
  | { readonly type: 'execution.report'; readonly leaseId: string }

const { recordEffect, endActor } = defineActions<ExecutionContext, ExecutionEvent, ExecutionEffect>()

/** The transitions of every state in which the agent or its preparation may be running. */
const activeTransitions = {
  'cancel requested': { target: 'stopping', actions: 'noteCancel' },
  'stop requested': { target: 'stopping', actions: 'noteStop' },
  'lease lost': { target: 'abandoned', actions: 'noteLoss' },
  'daemon restarted': { target: 'recovering', actions: 'noteStop' },
  progressed: { actions: 'noteProgress' },
  'costs reported': { actions: 'noteCosts' },
} as const

export const executionMachine = setup({
  types: {} as { context: ExecutionContext; events: ExecutionEvent; input: ExecutionInput },
  guards: {
    isLeaseLost: ({ context }) => isLeaseLost(context),
    isLeaseHeld: ({ context }) => !isLeaseLost(context),
  },
  actions: {
    accept: recordEffect(({ context }) => ({ type: 'execution.accept', leaseId: context.leaseId })),
    start: recordEffect(({ context }) => ({ type: 'execution.start', leaseId: context.leaseId })),
    runAgent: recordEffect(({ context }) => ({ type: 'execution.run agent', leaseId: context.leaseId })),
    finish: recordEffect(({ context, event }) => ({
      type: 'execution.finish',
      leaseId: context.leaseId,
      agent: agentOutcomeOf(event),
    })),
    recover: recordEffect(({ context }) => ({ type: 'execution.recover', leaseId: context.leaseId })),
    report: recordEffect(({ context }) => ({ type: 'execution.report', leaseId: context.leaseId })),
    noteProgress: assign(({ context, event }) =>
      'progress' in event ? { progress: { ...context.progress, ...event.progress } } : {},
    ),
    noteBegun: assign({ begun: true }),
    noteCosts: assign(({ event }) => (event.type === 'costs reported' ? { costs: event.costs } : {})),
    noteCancel: assign(({ event }) => ({
      stop: { as: 'cancelled' as const, how: 'interrupt' as const, reason: reasonOf(event) },
    })),
    // A cancelled execution stays cancelled.
    noteStop: assign(({ context, event }) => ({
      stop: {
        as: context.stop?.as ?? ('interrupted' as const),
        how: 'kill' as const,
        reason: reasonOf(event),
      },
    })),
    noteLoss: assign(({ event }) => ({
      stop: {
        as: 'nothing' as const,
        how: event.type === 'lease lost' ? event.how : ('kill' as const),
        reason: reasonOf(event),
      },
    })),
    noteSandbox: assign(({ context, event }) =>
      event.type === 'recovered' && event.sandbox !== undefined
        ? { progress: { ...context.progress, sandbox: event.sandbox } }
        : {},
    ),
    noteOutcome: assign(({ context, event }) => {
      const outcome = deriveOutcome(context, event.type === 'ended' ? event.outcome : null)
      return { outcome, costs: outcome.costs }
    }),
    noteLastCosts: assign(({ event }) =>
      event.type === 'ended' && event.outcome !== null && event.outcome.costs.length > 0
        ? { costs: event.outcome.costs }
        : {},
    ),
    // The host has them, so there is nothing to settle.
    forgetCosts: assign({ costs: [] }),
    end: endActor(),
  },
}).createMachine({
  id: 'execution',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, begun: false, progress: {}, costs: [], stop: null, outcome: null }),
  initial: 'accepted',
  states: {
    accepted: {
      description:
        'on disk, so the dispatch may be accepted; waits until no older execution of the run is left',
      entry: 'accept',
      on: {
        ...activeTransitions,
        // Nothing has run yet, so there is nothing to recover.
        'daemon restarted': { target: 'finished', actions: ['noteStop', 'noteOutcome'] },
        'older execution gone': 'preparing',
        'preparation failed': 'finishing',
      },
    },
    preparing: {
      description: 'the checkout and the sandbox are being made',
      entry: 'start',
      on: {
        ...activeTransitions,
        prepared: { target: 'working', actions: ['noteProgress', 'noteBegun'] },
        'preparation failed': 'finishing',
      },
    },
    working: {
      description: 'the agent is running',
      entry: 'runAgent',
      on: { ...activeTransitions, 'agent ended': 'finishing' },
    },
    finishing: {
      description: 'the outputs of the agent are collected and published',
      entry: 'finish',
      on: { ...activeTransitions, ended: { target: 'finished', actions: 'noteOutcome' } },
    },
    stopping: {
      description: 'cancelled or interrupted before it was done; its progress is still reported',
      on: {
        'stop requested': { target: 'stopping', reenter: true, actions: 'noteStop' },
        'lease lost': { target: 'abandoned', actions: 'noteLoss' },
        'daemon restarted': { target: 'recovering', actions: 'noteStop' },
        progressed: { actions: 'noteProgress' },
        'costs reported': { actions: 'noteCosts' },
        ended: { target: 'finished', actions: 'noteOutcome' },
      },
    },
    abandoned: {
      description: 'the lease is lost; the processes are being ended, and only the costs are reported',
      on: {
        'lease lost': { target: 'abandoned', reenter: true, actions: 'noteLoss' },
        'stop requested': { target: 'abandoned', reenter: true, actions: 'noteLoss' },
        'costs reported': { actions: 'noteCosts' },
        ended: { target: 'over', actions: 'noteLastCosts' },
        'daemon restarted': 'recovering',
      },
    },
    recovering: {
      description: 'the daemon died during the execution; the outputs that are left are being recovered',
      entry: 'recover',
      on: {
        recovered: [
          { guard: 'isLeaseLost', target: 'over' },
          { target: 'finished', actions: ['noteSandbox', 'noteOutcome'] },
        ],
        'costs reported': { actions: 'noteCosts' },
        'cancel requested': { guard: 'isLeaseHeld', actions: 'noteCancel' },
        'lease lost': { actions: 'noteLoss' },
      },
    },
    finished: {
      description: 'the completion is on disk until the host has acknowledged it',
      entry: 'report',
      on: { 'completion acknowledged': { target: 'over', actions: 'forgetCosts' }, 'lease lost': 'over' },
    },
    over: {
      description:
        'deleted from disk, together with its frames; costs that the host lacks become a settlement',
      entry: 'end',
    },
  },
})

/** The host accepts no outcome of this execution any more, and the worker does not claim its lease. */
export const isLeaseLost = ({ stop }: ExecutionContext): boolean => stop?.as === 'nothing'

const reasonOf = (event: ExecutionEvent): string => ('reason' in event ? event.reason : 'stopped')

function agentOutcomeOf(event: ExecutionEvent): AgentOutcome {
  if (event.type === 'agent ended') return event.agent
  const failure = event.type === 'preparation failed' ? event.failure : undefined
  return { verdict: 'failed', reason: reasonOf(event), ...(failure === undefined ? {} : { failure }) }
}

// ---- after a restart ---------------------------------------------------------------------------------------------

/** The words for the phase in which a daemon died, for the reason that people read. */
const PHASE_NAMES: Readonly<Record<string, string>> = {
  accepted: 'preparing',
  preparing: 'preparing',
  working: 'running',
  finishing: 'finalizing',
  stopping: 'being stopped',
}

const impliedOutputs: NonNullable<ActorKind['impliedOutputs']> = (
  key,
  { value },
): readonly ImpliedOutput[] => {
  const effect = (made: ExecutionEffect): ImpliedOutput => ({ is: 'effect', effect: made })
  if (value === 'finished') return [effect({ type: 'execution.report', leaseId: key })]
  if (value === 'recovering') return [effect({ type: 'execution.recover', leaseId: key })]
  const phase = PHASE_NAMES[String(value)] ?? 'on its way'
  const reason = daemonEndedError(phase)
  return [eventTo(EXECUTION, key, { type: 'daemon restarted', reason })]
}

/** Version 3 did not say whether the agent had begun: in every state but the first two it may have. */
function liftFromV3({ c, ...record }: ActorSnapshot): ActorSnapshot {
  const begun = record.s !== 'a' && record.s !== 'p'
  return { ...record, v: 4, c: { ...(c as object), begun } }
}

export const executionKind: ActorKind = {
  name: EXECUTION,
  logic: executionMachine,
  codec: createSnapshotCodec({
    version: 6,
    states: {
      accepted: 'a',
      preparing: 'p',
      working: 'w',
      finishing: 'f',
      stopping: 's',
      abandoned: 'l',
      recovering: 'r',
      finished: 'd',
      over: 'x',
    },
    schema: snapshotShape(ExecutionFields),
    // Version 6: an outcome may say by a digest which keys it names. Version 5: an outcome may name keys in the work.
    // Version 2: an outcome may say of what kind the failure is. Version 3: a sandbox, whether its work is unpublished.
    lifts: {
      1: (record) => ({ ...record, v: 2 }),
      2: (record) => ({ ...record, v: 3 }),
      3: liftFromV3,
      4: (record) => ({ ...record, v: 5 }),
      5: (record) => ({ ...record, v: 6 }),
    },
  }),
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    // The worker stops claiming the lease, so the host queues the run again.
    finally: 'closed',
  },
  impliedOutputs,
}

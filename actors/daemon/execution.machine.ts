/**
 * One execution of one run under one lease, from its dispatch until the host has all of it.
 *
 * Its key is the lease's id. It is on disk before the dispatch is accepted, and leaves the disk with the host's word
 * that the completion has arrived, or that the lease is lost. A daemon that died does not resume an agent: what its
 * executions left is salvaged and told as interrupted, or as completed when the work was out already.
 *
 * `stopping` and `abandoned` have no deed on entering: whoever follows the good states stops the execution in that very
 * moment, because a full disk must not keep a fenced run alive.
 */
import { assign, setup } from 'xstate'
import { deriveOutcome } from '../../core/daemon/outcome.ts'
import type { AgentOutcome, Progress, StopRequest } from '../../core/daemon/ports.ts'
import { interruptionError } from '../../core/run/interruption.ts'
import { ExecutionFields, shapeOf } from '../../protocol/actor-snapshots.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import type { RunSandbox } from '../../protocol/run.ts'
import { defineActions } from '../runtime/actions.ts'
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
  /** No older execution of its run is left on this machine. */
  | { readonly type: 'cleared' }
  | { readonly type: 'prepared'; readonly progress: Progress }
  | { readonly type: 'could not prepare'; readonly reason: string }
  | { readonly type: 'worked'; readonly worked: AgentOutcome }
  | { readonly type: 'progressed'; readonly progress: Progress }
  /** All that this lease has cost so far. */
  | { readonly type: 'spent'; readonly costs: CostEntry[] }
  /** Nothing of it runs any more. `said`: what it answered, if it got so far. */
  | { readonly type: 'ended'; readonly outcome: RunOutcome | null }
  | { readonly type: 'salvaged'; readonly sandbox: RunSandbox | undefined }
  | { readonly type: 'cancel requested'; readonly reason: string }
  /** The daemon ends at once. */
  | { readonly type: 'stopped'; readonly reason: string }
  /** The lease is good for nothing any more: nothing is told, nothing reaches a code host. */
  | { readonly type: 'lost'; readonly how: StopRequest['how']; readonly reason: string }
  | { readonly type: 'daemon restarted'; readonly reason: string }
  /** The host has its completion on disk. */
  | { readonly type: 'acknowledged' }

export type ExecutionEffect =
  | { readonly type: 'execution.accept'; readonly leaseId: string }
  | { readonly type: 'execution.begin'; readonly leaseId: string }
  | { readonly type: 'execution.work'; readonly leaseId: string }
  | { readonly type: 'execution.finish'; readonly leaseId: string; readonly worked: AgentOutcome }
  | { readonly type: 'execution.salvage'; readonly leaseId: string }
  | { readonly type: 'execution.report'; readonly leaseId: string }

const { recordEffect, endActor } = defineActions<ExecutionContext, ExecutionEvent, ExecutionEffect>()

/** Where an agent or what prepares for it may be at work. */
const activeTransitions = {
  'cancel requested': { target: 'stopping', actions: 'noteCancel' },
  stopped: { target: 'stopping', actions: 'noteStop' },
  lost: { target: 'abandoned', actions: 'noteLoss' },
  'daemon restarted': { target: 'salvaging', actions: 'noteStop' },
  progressed: { actions: 'noteProgress' },
  spent: { actions: 'noteCosts' },
} as const

export const executionMachine = setup({
  types: {} as { context: ExecutionContext; events: ExecutionEvent; input: ExecutionInput },
  actions: {
    accept: recordEffect(({ context }) => ({ type: 'execution.accept', leaseId: context.leaseId })),
    begin: recordEffect(({ context }) => ({ type: 'execution.begin', leaseId: context.leaseId })),
    work: recordEffect(({ context }) => ({ type: 'execution.work', leaseId: context.leaseId })),
    finish: recordEffect(({ context, event }) => ({
      type: 'execution.finish',
      leaseId: context.leaseId,
      worked: workedOf(event),
    })),
    salvage: recordEffect(({ context }) => ({ type: 'execution.salvage', leaseId: context.leaseId })),
    report: recordEffect(({ context }) => ({ type: 'execution.report', leaseId: context.leaseId })),
    noteProgress: assign(({ context, event }) =>
      'progress' in event ? { progress: { ...context.progress, ...event.progress } } : {},
    ),
    noteCosts: assign(({ event }) => (event.type === 'spent' ? { costs: event.costs } : {})),
    noteCancel: assign(({ event }) => ({
      stop: { as: 'cancelled' as const, how: 'interrupt' as const, reason: reasonOf(event) },
    })),
    // Whoever was cancelled stays so.
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
        how: event.type === 'lost' ? event.how : ('kill' as const),
        reason: reasonOf(event),
      },
    })),
    noteSandbox: assign(({ context, event }) =>
      event.type === 'salvaged' && event.sandbox !== undefined
        ? { progress: { ...context.progress, sandbox: event.sandbox } }
        : {},
    ),
    noteOutcome: assign(({ context, event }) => ({
      outcome: deriveOutcome(context, event.type === 'ended' ? event.outcome : null),
    })),
    end: endActor(),
  },
}).createMachine({
  id: 'execution',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, progress: {}, costs: [], stop: null, outcome: null }),
  initial: 'accepted',
  states: {
    accepted: {
      description: 'on disk, so the host may be told; an older execution of the run has to be gone first',
      entry: 'accept',
      on: {
        ...activeTransitions,
        // Nothing has been done yet, so it is simply not claimed, and the host queues the run again.
        'daemon restarted': 'over',
        cleared: 'preparing',
        'could not prepare': 'finishing',
      },
    },
    preparing: {
      description: 'the checkout and the sandbox are being made',
      entry: 'begin',
      on: {
        ...activeTransitions,
        prepared: { target: 'working', actions: 'noteProgress' },
        'could not prepare': 'finishing',
      },
    },
    working: {
      description: 'the agent is at work',
      entry: 'work',
      on: { ...activeTransitions, worked: 'finishing' },
    },
    finishing: {
      description: 'what the agent left is collected and published',
      entry: 'finish',
      on: { ...activeTransitions, ended: { target: 'finished', actions: 'noteOutcome' } },
    },
    stopping: {
      description: 'it has to end before it is done; how far it came is still told',
      on: {
        stopped: { target: 'stopping', reenter: true, actions: 'noteStop' },
        lost: { target: 'abandoned', actions: 'noteLoss' },
        'daemon restarted': { target: 'salvaging', actions: 'noteStop' },
        progressed: { actions: 'noteProgress' },
        spent: { actions: 'noteCosts' },
        ended: { target: 'finished', actions: 'noteOutcome' },
      },
    },
    abandoned: {
      description: 'the lease is lost; what still runs is being ended, and nobody is told',
      on: {
        lost: { target: 'abandoned', reenter: true, actions: 'noteLoss' },
        stopped: { target: 'abandoned', reenter: true, actions: 'noteLoss' },
        ended: 'over',
        'daemon restarted': 'over',
      },
    },
    salvaging: {
      description: 'the daemon died in the middle of it; what is left is being secured',
      entry: 'salvage',
      on: {
        salvaged: { target: 'finished', actions: ['noteSandbox', 'noteOutcome'] },
        spent: { actions: 'noteCosts' },
        'cancel requested': { actions: 'noteCancel' },
        lost: 'over',
      },
    },
    finished: {
      description: 'its completion waits until the host has it',
      entry: 'report',
      on: { acknowledged: 'over', lost: 'over' },
    },
    over: {
      description: 'its buffer is gone with it',
      entry: 'end',
    },
  },
})

const reasonOf = (event: ExecutionEvent): string => ('reason' in event ? event.reason : 'stopped')

function workedOf(event: ExecutionEvent): AgentOutcome {
  if (event.type === 'worked') return event.worked
  return { verdict: 'failed', reason: reasonOf(event) }
}

// ---- after a restart ---------------------------------------------------------------------------------------------

/** How people call the phase in which a daemon died. */
const PHASE_NAMES: Readonly<Record<string, string>> = {
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
  if (value === 'salvaging') return [effect({ type: 'execution.salvage', leaseId: key })]
  const phase = PHASE_NAMES[String(value)] ?? 'on its way'
  const restarted: ExecutionEvent = {
    type: 'daemon restarted',
    reason: interruptionError(`the worker daemon ended while the run was ${phase}`),
  }
  return [{ is: 'event', to: { kind: EXECUTION, key }, event: restarted }]
}

export const executionKind: ActorKind = {
  name: EXECUTION,
  logic: executionMachine,
  codec: createSnapshotCodec({
    version: 1,
    states: {
      accepted: 'a',
      preparing: 'p',
      working: 'w',
      finishing: 'f',
      stopping: 's',
      abandoned: 'l',
      salvaging: 'r',
      finished: 'd',
      over: 'x',
    },
    schema: shapeOf(ExecutionFields),
    lifts: {},
  }),
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    // Unclaimed, so the host queues the run again.
    finally: 'closed',
  },
  impliedOutputs,
}

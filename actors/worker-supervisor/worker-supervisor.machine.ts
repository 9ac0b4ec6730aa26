/**
 * The worker supervisor machine follows one worker: it serves, is drained while idle, is stopped, and is started again.
 *
 * Every decision is a rule of `core/fleet/supervision.ts` about the newest answer of the host. One request is under way
 * at a time, and none while the driver starts or stops the worker.
 */
import { assign, setup } from 'xstate'
import type { DemandRequest } from '../../core/fleet/supervision.ts'
import {
  freshMemory,
  judgeDraining,
  judgeFirstAnswer,
  judgeJoining,
  judgeServing,
  judgeStopped,
  noteSilence,
  type OwnDemand,
  observe,
  type SupervisionJudge,
  type SupervisionMemory,
  type SupervisionSettings,
  type SupervisionStep,
} from '../../core/fleet/supervision.ts'
import { defineActions } from '../runtime/actions.ts'
import { kindName } from '../runtime/actor-kind.ts'

export const WORKER_SUPERVISOR = kindName<SupervisorContext, SupervisorEvent, SupervisorInput>(
  'worker-supervisor',
)

interface SupervisorContext {
  readonly settings: SupervisionSettings
  readonly memory: SupervisionMemory
  /** Requests without an answer in a row. */
  readonly silences: number
  readonly end: SupervisorEnd
}

export interface SupervisorEnd {
  readonly exitCode: number
  readonly reason: string
}

export interface SupervisorInput {
  readonly settings: SupervisionSettings
  readonly at: number
}

/** `at` and `retryAt` are instants of the monotonic clock. */
export type SupervisorEvent =
  | { readonly type: 'answered'; readonly at: number; readonly demand: OwnDemand }
  | { readonly type: 'unanswered' }
  | { readonly type: 'poll due' }
  | { readonly type: 'started'; readonly at: number }
  | { readonly type: 'not started'; readonly at: number; readonly retryAt: number }
  | { readonly type: 'stopped'; readonly at: number }
  | { readonly type: 'not stopped'; readonly at: number; readonly retryAt: number }
  /** The worker's process ended by itself. */
  | { readonly type: 'worker ended'; readonly at: number }
  | { readonly type: 'pause over' }
  /** A new start cannot help. */
  | { readonly type: 'worker failed for good'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'stop requested' }
  | { readonly type: 'released' }

export type SupervisorEffect =
  | { readonly type: 'supervision.ask'; readonly request: DemandRequest }
  | { readonly type: 'supervision.wait'; readonly silences: number }
  | { readonly type: 'supervision.start worker'; readonly failures: number }
  | { readonly type: 'supervision.stop worker'; readonly failures: number }
  | { readonly type: 'supervision.pause'; readonly failures: number }
  | { readonly type: 'supervision.release worker'; readonly stopPending: boolean }
  | { readonly type: 'supervision.finish'; readonly end: SupervisorEnd }

const { recordEffect, endActor } = defineActions<SupervisorContext, SupervisorEvent, SupervisorEffect>()

type StepFacts = { readonly context: SupervisorContext; readonly event: SupervisorEvent }
const isStep =
  (judge: SupervisionJudge, step: SupervisionStep) =>
  ({ context, event }: StepFacts): boolean =>
    event.type === 'answered' &&
    judge(observe(context.memory, event.demand, event.at), event.demand, context.settings, event.at) === step

const ask = (request: DemandRequest) => recordEffect(() => ({ type: 'supervision.ask', request }))

type DrivingEffect = 'supervision.start worker' | 'supervision.stop worker' | 'supervision.pause'
const withFailures = (type: DrivingEffect) =>
  recordEffect(({ context }) => ({ type, failures: context.memory.failures }))

const transitionsOfAll = {
  unanswered: { actions: ['noteSilence', 'wait'] },
  'poll due': { actions: 'askDemand' },
  'worker ended': { target: 'pausing', actions: 'noteFailure' },
  'worker failed for good': { target: 'ended', actions: 'noteEnd' },
  'stop requested': 'releasing',
} as const

export const workerSupervisorMachine = setup({
  types: {} as { context: SupervisorContext; events: SupervisorEvent; input: SupervisorInput },
  guards: {
    isStartedByUs: ({ context }) => !context.settings.startsAbsent,
    mayServeAtFirst: isStep(judgeFirstAnswer, 'serve'),
    mustStartAtFirst: isStep(judgeFirstAnswer, 'start'),
    mayRestAtFirst: isStep(judgeFirstAnswer, 'rest'),
    mustLiftServing: isStep(judgeServing, 'lift'),
    mustStartAbsent: isStep(judgeServing, 'start'),
    mayDrain: isStep(judgeServing, 'drain'),
    mayServeAgain: isStep(judgeDraining, 'serve'),
    mustLiftDraining: isStep(judgeDraining, 'lift'),
    mustStartDraining: isStep(judgeDraining, 'start'),
    mayStop: isStep(judgeDraining, 'stop'),
    isServingAgain: isStep(judgeStopped, 'serve'),
    mustLiftStopped: isStep(judgeStopped, 'lift'),
    mustStart: isStep(judgeStopped, 'start'),
    hasJoined: isStep(judgeJoining, 'serve'),
    mustLiftJoining: isStep(judgeJoining, 'lift'),
    isNotJoining: isStep(judgeJoining, 'rest'),
  },
  actions: {
    askDemand: ask('read'),
    askDrain: ask('drain'),
    askLift: ask('lift'),
    wait: recordEffect(({ context }) => ({ type: 'supervision.wait', silences: context.silences })),
    startWorker: withFailures('supervision.start worker'),
    stopWorker: withFailures('supervision.stop worker'),
    pause: withFailures('supervision.pause'),
    release: recordEffect(({ context }) => ({
      type: 'supervision.release worker',
      stopPending: context.memory.stopPending,
    })),
    finish: recordEffect(({ context }) => ({ type: 'supervision.finish', end: context.end })),
    noteAnswer: assign(({ context, event }) =>
      event.type === 'answered'
        ? { silences: 0, memory: observe(context.memory, event.demand, event.at) }
        : {},
    ),
    noteSilence: assign(({ context }) => ({
      silences: context.silences + 1,
      memory: noteSilence(context.memory),
    })),
    beginState: assign(({ context, event }) =>
      'at' in event ? { memory: { ...context.memory, since: event.at, wasAway: false } } : {},
    ),
    noteStopTried: assign(({ context }) => ({ memory: { ...context.memory, stopPending: true } })),
    /** An earlier stop has no effect any more, whether it succeeded or a start replaced it. */
    noteStopSettled: assign(({ context }) => ({ memory: { ...context.memory, stopPending: false } })),
    resetFailures: assign(({ context }) => ({ memory: { ...context.memory, failures: 0 } })),
    noteFailure: assign(({ context, event }) => ({
      memory: {
        ...context.memory,
        quietSince: null,
        idleSince: null,
        failures: context.memory.failures + 1,
        notBefore: 'retryAt' in event ? event.retryAt : context.memory.notBefore,
      },
    })),
    noteEnd: assign(({ event }) =>
      event.type === 'worker failed for good'
        ? { end: { exitCode: event.exitCode, reason: event.reason } }
        : {},
    ),
    end: endActor(),
  },
}).createMachine({
  id: WORKER_SUPERVISOR,
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    settings: input.settings,
    memory: freshMemory(input.at),
    silences: 0,
    end: { exitCode: 0, reason: 'it was asked to stop' },
  }),
  initial: 'beginning',
  states: {
    beginning: {
      description: 'the supervisor starts; it does not know yet whether the worker runs',
      always: [
        { guard: 'isStartedByUs', target: 'starting' },
        { target: 'asking', actions: 'askDemand' },
      ],
    },
    asking: {
      description: 'the first answer of the host is awaited',
      on: {
        ...transitionsOfAll,
        answered: [
          { guard: 'mustStartAtFirst', target: 'starting', actions: 'noteAnswer' },
          { guard: 'mayServeAtFirst', target: 'serving', actions: ['noteAnswer', 'beginState', 'wait'] },
          { guard: 'mayRestAtFirst', target: 'stopped', actions: ['beginState', 'noteAnswer', 'wait'] },
          { actions: ['noteAnswer', 'askLift'] },
        ],
      },
    },
    serving: {
      description: 'the worker runs, or is away for a reason of its own',
      on: {
        ...transitionsOfAll,
        answered: [
          { guard: 'mustLiftServing', actions: ['noteAnswer', 'askLift'] },
          { guard: 'mustStartAbsent', target: 'starting', actions: 'noteAnswer' },
          { guard: 'mayDrain', target: 'draining', actions: ['noteAnswer', 'askDrain'] },
          { actions: ['noteAnswer', 'wait'] },
        ],
      },
    },
    draining: {
      description:
        'the worker is drained in the name of the supervisor; it is stopped when nothing is in flight',
      on: {
        ...transitionsOfAll,
        answered: [
          { guard: 'mayServeAgain', target: 'serving', actions: ['noteAnswer', 'wait'] },
          { guard: 'mustLiftDraining', actions: ['noteAnswer', 'askLift'] },
          { guard: 'mustStartDraining', target: 'starting', actions: 'noteAnswer' },
          { guard: 'mayStop', target: 'stopping', actions: 'noteAnswer' },
          { actions: ['noteAnswer', 'wait'] },
        ],
      },
    },
    stopping: {
      description: 'the driver stops the worker',
      entry: ['noteStopTried', 'stopWorker'],
      on: {
        stopped: {
          target: 'stopped',
          actions: ['noteStopSettled', 'resetFailures', 'beginState', 'askDemand'],
        },
        'not stopped': { target: 'draining', actions: ['noteFailure', 'wait'] },
        'stop requested': 'releasing',
      },
    },
    stopped: {
      description: 'the worker does not run; its own drain is lifted once it is gone',
      on: {
        ...transitionsOfAll,
        answered: [
          { guard: 'isServingAgain', target: 'serving', actions: ['noteAnswer', 'beginState', 'wait'] },
          { guard: 'mustLiftStopped', actions: ['noteAnswer', 'askLift'] },
          { guard: 'mustStart', target: 'starting', actions: 'noteAnswer' },
          { actions: ['noteAnswer', 'wait'] },
        ],
      },
    },
    starting: {
      description: 'the driver starts the worker',
      entry: 'startWorker',
      on: {
        started: { target: 'joining', actions: ['noteStopSettled', 'beginState', 'askDemand'] },
        'not started': [
          { guard: 'isStartedByUs', target: 'pausing', actions: 'noteFailure' },
          { target: 'stopped', actions: ['noteFailure', 'beginState', 'wait'] },
        ],
        'worker ended': { target: 'pausing', actions: 'noteFailure' },
        'worker failed for good': { target: 'ended', actions: 'noteEnd' },
        'stop requested': 'releasing',
      },
    },
    joining: {
      description: 'the worker was started and has not connected yet',
      on: {
        ...transitionsOfAll,
        answered: [
          {
            guard: 'hasJoined',
            target: 'serving',
            actions: ['noteAnswer', 'resetFailures', 'beginState', 'wait'],
          },
          { guard: 'mustLiftJoining', actions: ['noteAnswer', 'askLift'] },
          { guard: 'isNotJoining', target: 'stopped', actions: ['beginState', 'noteAnswer', 'wait'] },
          { actions: ['noteAnswer', 'wait'] },
        ],
      },
    },
    pausing: {
      description: 'the process of the worker has ended by itself, and is started again after a pause',
      entry: 'pause',
      on: { 'pause over': 'starting', 'stop requested': 'releasing' },
    },
    releasing: {
      description: 'the supervisor ends: it stops a process of its own, and leaves any other worker as it is',
      entry: 'release',
      on: { released: 'ended' },
    },
    ended: {
      description: 'the supervisor has ended',
      entry: ['finish', 'end'],
    },
  },
})

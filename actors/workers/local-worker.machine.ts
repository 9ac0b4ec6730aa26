/**
 * The local worker machine decides when the host's own worker process is started, restarted and drained.
 *
 * The local worker is an ordinary worker with its own process and credential; this machine only keeps one running while
 * the configuration wants it. Changed settings take a new process, which starts after the old one has finished its
 * runs.
 */
import { assign, setup } from 'xstate'
import type { LocalWorkerExitKind } from '../../core/fleet/local-worker.ts'
import type { LocalWorkerSettings } from '../../core/ports/machines.ts'
import { isJsonEqual } from '../../core/settings/json-values.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName, restartOrFatal } from '../runtime/actor-kind.ts'

export const LOCAL_WORKER = kindName<LocalWorkerContext, LocalWorkerEvent>('local-worker')

export interface LocalWorkerContext {
  /** As configured now; null when no local worker is wanted. */
  readonly wanted: LocalWorkerSettings | null
  /** The settings that the process was started with. */
  readonly startedWith: LocalWorkerSettings | null
  /** Consecutive starts that ended before the process was steady. */
  readonly failures: number
  readonly ending: LocalWorkerExitKind
}

export type LocalWorkerEvent =
  | { readonly type: 'wanted'; readonly settings: LocalWorkerSettings }
  | { readonly type: 'unwanted' }
  | { readonly type: 'started' }
  | { readonly type: 'not started' }
  | { readonly type: 'ended'; readonly ending: LocalWorkerExitKind }
  /** The process has been running for a while. */
  | { readonly type: 'steady' }
  | { readonly type: 'pause over' }

export type LocalWorkerEffect =
  | {
      readonly type: 'local.start'
      readonly settings: LocalWorkerSettings
      readonly enrollAgain: boolean
    }
  | { readonly type: 'local.drain' }
  | { readonly type: 'local.wait to restart'; readonly failures: number; readonly hopeless: boolean }

const { recordEffect } = defineActions<LocalWorkerContext, LocalWorkerEvent, LocalWorkerEffect>()

export const localWorkerMachine = setup({
  types: {} as { context: LocalWorkerContext; events: LocalWorkerEvent },
  guards: {
    isWanted: ({ context }) => context.wanted !== null,
    isUnwanted: ({ context }) => context.wanted === null,
    isOutdated: ({ context }) => !isJsonEqual(context.wanted, context.startedWith),
  },
  actions: {
    setWanted: assign(({ event }) => (event.type === 'wanted' ? { wanted: event.settings } : {})),
    setUnwanted: assign({ wanted: null }),
    noteStart: assign(({ context }) => ({ startedWith: context.wanted })),
    noteEnd: assign(({ context, event }) => ({
      failures: context.failures + 1,
      ending: event.type === 'ended' ? event.ending : ('died' as const),
    })),
    resetFailures: assign({ failures: 0, ending: 'died' as const }),
    start: recordEffect(({ context }) =>
      context.startedWith === null
        ? []
        : {
            type: 'local.start',
            settings: context.startedWith,
            enrollAgain: context.ending === 'unauthorized',
          },
    ),
    drain: recordEffect(() => ({ type: 'local.drain' })),
    waitToRestart: recordEffect(({ context }) => ({
      type: 'local.wait to restart',
      failures: context.failures,
      hopeless: context.ending === 'unrecoverable',
    })),
  },
}).createMachine({
  id: LOCAL_WORKER,
  options: { maxIterations: 100 },
  context: { wanted: null, startedWith: null, failures: 0, ending: 'died' },
  initial: 'off',
  on: { wanted: { actions: 'setWanted' }, unwanted: { actions: 'setUnwanted' } },
  states: {
    off: {
      description: 'no process runs: none is wanted, or this machine cannot execute runs',
      always: { guard: 'isWanted', target: 'starting' },
    },
    starting: {
      description: 'the process is being started, with a pairing token when it has no credential',
      entry: ['noteStart', 'start'],
      on: { started: 'running', 'not started': { target: 'waiting', actions: 'noteEnd' } },
    },
    running: {
      description: 'the process is running; the worker registry knows whether it is connected',
      always: { guard: 'isOutdated', target: 'stopping' },
      on: {
        steady: { actions: 'resetFailures' },
        ended: { target: 'waiting', actions: 'noteEnd' },
      },
    },
    waiting: {
      description: 'the process ended and is restarted after a pause',
      entry: 'waitToRestart',
      always: { guard: 'isUnwanted', target: 'off' },
      on: { 'pause over': 'starting' },
    },
    stopping: {
      description: 'the process takes no new runs and ends when its current ones are finished',
      entry: 'drain',
      on: { ended: { target: 'off', actions: 'resetFailures' } },
    },
  },
})

export const localWorkerKind: ActorKind = {
  name: LOCAL_WORKER,
  singleton: true,
  logic: localWorkerMachine,
  supervision: restartOrFatal,
}

/**
 * The worker that the host runs itself: started where it is wanted, started again when it ends, ended when it is
 * wanted no more.
 *
 * It is a worker like any other, in a process of its own with a credential of its own; this life only sees to it that
 * there is one. Another concurrency takes a new process, and the old one may finish what it has.
 */
import { assign, setup } from 'xstate'
import type { LocalWorkerExitKind } from '../../core/fleet/local-worker-exit.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, restartOrFatal } from '../runtime/actor-kind.ts'

export const LOCAL_WORKER = 'local-worker'

export interface LocalWorkerContext {
  /** Runs at once, as configured now; null: none is wanted. */
  readonly wanted: number | null
  /** As the process was started with. */
  readonly given: number | null
  /** Starts in a row that did not last. */
  readonly failures: number
  readonly ending: LocalWorkerExitKind
}

export type LocalWorkerEvent =
  | { readonly type: 'wanted'; readonly concurrency: number }
  | { readonly type: 'unwanted' }
  | { readonly type: 'started' }
  | { readonly type: 'not started' }
  | { readonly type: 'ended'; readonly ending: LocalWorkerExitKind }
  /** It has been at work for a while. */
  | { readonly type: 'steady' }
  | { readonly type: 'rested' }

export type LocalWorkerEffect =
  | { readonly type: 'local.start'; readonly concurrency: number; readonly anew: boolean }
  | { readonly type: 'local.drain' }
  | { readonly type: 'local.rest'; readonly failures: number; readonly hopeless: boolean }

const { recordEffect } = defineActions<LocalWorkerContext, LocalWorkerEvent, LocalWorkerEffect>()

export const localWorkerMachine = setup({
  types: {} as { context: LocalWorkerContext; events: LocalWorkerEvent },
  guards: {
    isWanted: ({ context }) => context.wanted !== null,
    isUnwanted: ({ context }) => context.wanted === null,
    isOutdated: ({ context }) => context.wanted !== context.given,
  },
  actions: {
    noteWish: assign(({ event }) => (event.type === 'wanted' ? { wanted: event.concurrency } : {})),
    noteNoWish: assign({ wanted: null }),
    noteStart: assign(({ context }) => ({ given: context.wanted })),
    noteEnd: assign(({ context, event }) => ({
      failures: context.failures + 1,
      ending: event.type === 'ended' ? event.ending : ('died' as const),
    })),
    noteWell: assign({ failures: 0, ending: 'died' as const }),
    start: recordEffect(({ context }) =>
      context.given === null
        ? []
        : {
            type: 'local.start',
            concurrency: context.given,
            anew: context.ending === 'unauthorized',
          },
    ),
    drain: recordEffect(() => ({ type: 'local.drain' })),
    rest: recordEffect(({ context }) => ({
      type: 'local.rest',
      failures: context.failures,
      hopeless: context.ending === 'unrecoverable',
    })),
  },
}).createMachine({
  id: LOCAL_WORKER,
  options: { maxIterations: 100 },
  context: { wanted: null, given: null, failures: 0, ending: 'died' },
  initial: 'off',
  on: { wanted: { actions: 'noteWish' }, unwanted: { actions: 'noteNoWish' } },
  states: {
    off: {
      description: 'no process; none is wanted, or none can be had on this machine',
      always: { guard: 'isWanted', target: 'starting' },
    },
    starting: {
      description: 'the process is being started, with an invitation when it has no credential',
      entry: ['noteStart', 'start'],
      on: { started: 'running', 'not started': { target: 'waiting', actions: 'noteEnd' } },
    },
    running: {
      description: 'the process is there; whether it is connected, the fleet tells',
      always: { guard: 'isOutdated', target: 'stopping' },
      on: {
        steady: { actions: 'noteWell' },
        ended: { target: 'waiting', actions: 'noteEnd' },
      },
    },
    waiting: {
      description: 'it ended, and is started again after a while',
      entry: 'rest',
      always: { guard: 'isUnwanted', target: 'off' },
      on: { rested: 'starting' },
    },
    stopping: {
      description: 'it takes no more runs, and ends when those it has are done',
      entry: 'drain',
      on: { ended: { target: 'off', actions: 'noteWell' } },
    },
  },
})

export const localWorkerKind: ActorKind = {
  name: LOCAL_WORKER,
  logic: localWorkerMachine,
  supervision: restartOrFatal,
}

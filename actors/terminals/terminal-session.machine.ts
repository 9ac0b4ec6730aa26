/**
 * A run's sandbox that a worker has booted for a person: from the order to boot it until nothing of it is left.
 *
 * It is booted for as long as somebody looks at it, and a grace longer, so that a page may be loaded again. Its worker
 * may be away for a while: the session lives on there, and whoever looks at it waits. Nothing of this is kept on disk.
 * After a restart nothing is booted as far as the host knows; the worker closes by itself what nobody asks for, and
 * answers at once when somebody does.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash } from '../runtime/actor-kind.ts'
import { TERMINAL_SESSION } from './terminal-session.names.ts'

export interface TerminalSessionContext {
  readonly runId: string
  readonly workerId: string
  readonly requestId: string
  /** Somebody looks at it. */
  readonly watched: boolean
  /** Why it is over, in a sentence for whoever waits for it or looks at it. */
  readonly reason: string
}

export type TerminalSessionInput = Pick<TerminalSessionContext, 'runId' | 'workerId' | 'requestId'>

export type TerminalSessionEvent =
  | { readonly type: 'ready' }
  | { readonly type: 'watched' }
  | { readonly type: 'unwatched' }
  | { readonly type: 'line lost' }
  | { readonly type: 'line back' }
  /** The session's process ended; those who look at it are being told. */
  | { readonly type: 'exited' }
  /** What its state may take is over. */
  | { readonly type: 'time over' }
  /** It could not be booted, or is not booted any more, as its worker says. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'released'; readonly reason: string }
  /** There is no such worker any more. */
  | { readonly type: 'worker left' }

export type TerminalSessionEffect =
  | { readonly type: 'attach.boot'; readonly runId: string; readonly requestId: string }
  | { readonly type: 'attach.reopen'; readonly runId: string }
  /** Stops what may be left of it on its worker. */
  | { readonly type: 'attach.release'; readonly runId: string; readonly workerId: string }

const { recordEffect, endActor } = defineActions<
  TerminalSessionContext,
  TerminalSessionEvent,
  TerminalSessionEffect
>()

const BOOT_FAILED = 'the sandbox could not be booted in time; try again'
const WORKER_LOST = 'the worker was lost while it booted the sandbox; try again once it is back'
const WORKER_REVOKED = 'the worker that held the sandbox is enrolled no more'
const WORKER_AWAY = 'the worker did not come back in time; try again once it is connected'
const UNWATCHED = 'nobody looked at it for a while, and so it was released; try again'
const SESSION_ENDED = 'the session has ended'

const withReason = (reason: string) => ({ type: 'give', params: { reason } }) as const

const endings = {
  released: { target: 'over', actions: ['giveReason', 'release'] },
  failed: { target: 'over', actions: ['giveReason', 'release'] },
  'worker left': { target: 'over', actions: withReason(WORKER_REVOKED) },
} as const

const viewerChanges = {
  watched: { actions: 'noteWatched' },
  unwatched: { actions: 'noteUnwatched' },
} as const

export const terminalSessionMachine = setup({
  types: {} as { context: TerminalSessionContext; events: TerminalSessionEvent; input: TerminalSessionInput },
  guards: { isWatched: ({ context }) => context.watched },
  actions: {
    noteWatched: assign({ watched: true }),
    noteUnwatched: assign({ watched: false }),
    give: assign((_, { reason }: { reason: string }) => ({ reason })),
    giveReason: assign(({ event }) => ('reason' in event ? { reason: event.reason } : {})),
    boot: recordEffect(({ context: { runId, requestId } }) => ({ type: 'attach.boot', runId, requestId })),
    reopen: recordEffect(({ context }) => ({ type: 'attach.reopen', runId: context.runId })),
    release: recordEffect(({ context: { runId, workerId } }) => ({
      type: 'attach.release',
      runId,
      workerId,
    })),
    end: endActor(),
  },
}).createMachine({
  id: TERMINAL_SESSION,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, watched: false, reason: SESSION_ENDED }),
  initial: 'booting',
  states: {
    booting: {
      description: 'its worker has been asked to boot it',
      entry: 'boot',
      on: {
        ready: 'unwatched',
        'time over': { target: 'over', actions: [withReason(BOOT_FAILED), 'release'] },
        'line lost': { target: 'over', actions: [withReason(WORKER_LOST), 'release'] },
        ...endings,
      },
    },
    unwatched: {
      description: 'booted, and nobody looks at it; it has a grace until it is released',
      on: {
        watched: { target: 'watched', actions: 'noteWatched' },
        'time over': { target: 'over', actions: [withReason(UNWATCHED), 'release'] },
        'line lost': 'waiting',
        exited: 'over',
        ...endings,
      },
    },
    watched: {
      description: 'booted, and somebody looks at it',
      on: {
        unwatched: { target: 'unwatched', actions: 'noteUnwatched' },
        'line lost': 'waiting',
        exited: 'ending',
        ...endings,
      },
    },
    waiting: {
      description: 'its worker is away; the session lives on there for as long as is waited here',
      on: {
        ...viewerChanges,
        'line back': [
          { guard: 'isWatched', target: 'watched', actions: 'reopen' },
          { target: 'unwatched', actions: 'reopen' },
        ],
        'time over': { target: 'over', actions: [withReason(WORKER_AWAY), 'release'] },
        ...endings,
      },
    },
    ending: {
      description: 'the session has ended, and those who look at it are told',
      on: {
        unwatched: { target: 'over', actions: 'noteUnwatched' },
        'time over': 'over',
        'line lost': 'over',
        ...endings,
      },
    },
    over: { description: 'not booted any more', entry: 'end' },
  },
})

export const terminalSessionKind: ActorKind = {
  name: TERMINAL_SESSION,
  logic: terminalSessionMachine,
  supervision: {
    ...closeOnCrash,
    finalOutputs: (runId, { context }) => {
      const effect: TerminalSessionEffect = { type: 'attach.release', runId, workerId: context.workerId }
      return [{ is: 'effect', effect }]
    },
  },
  // Whatever the disk does, a session must be able to end, and its end to be told.
  diskless: true,
}

/**
 * The terminal session machine follows one resumed sandbox from the order to boot it until the worker has released it.
 *
 * The sandbox stays booted while a terminal shows it, and for a grace period longer, so that a person may reload the
 * page. While the worker is disconnected, the session continues there and the terminals wait. Sessions are in memory
 * only: after a restart of the host the worker closes sandboxes that no one asks for, and answers a new order at once.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash, kindName } from '../runtime/actor-kind.ts'

/** Name of the actor kind of a terminal session on the host. The key of such an actor is the run's id. */
export const TERMINAL_SESSION = kindName<TerminalSessionContext, TerminalSessionEvent, TerminalSessionInput>(
  'attach',
)

export interface TerminalSessionContext {
  readonly runId: string
  readonly workerId: string
  readonly requestId: string
  /** Whether at least one terminal shows the session. */
  readonly watched: boolean
  /** Why the session ended, as a sentence for the people who wait for it or have it open. */
  readonly reason: string
}

export type TerminalSessionInput = Pick<TerminalSessionContext, 'runId' | 'workerId' | 'requestId'>

export type TerminalSessionEvent =
  | { readonly type: 'ready' }
  | { readonly type: 'watched' }
  | { readonly type: 'unwatched' }
  | { readonly type: 'connection lost' }
  | { readonly type: 'connection restored' }
  /** The session's process ended. */
  | { readonly type: 'exited' }
  /** The current state lasted as long as it may. */
  | { readonly type: 'timed out' }
  /** The worker reported that it could not boot the sandbox, or that the sandbox is no longer booted. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'released'; readonly reason: string }
  /** The worker was revoked. */
  | { readonly type: 'worker removed' }

export type TerminalSessionEffect =
  | { readonly type: 'attach.send boot'; readonly runId: string; readonly requestId: string }
  | { readonly type: 'attach.reopen views'; readonly runId: string }
  /** Orders the worker to stop whatever is left of the session. */
  | { readonly type: 'attach.send release'; readonly runId: string; readonly workerId: string }

const { recordEffect, endActor } = defineActions<
  TerminalSessionContext,
  TerminalSessionEvent,
  TerminalSessionEffect
>()

/** The reasons that people read when their session ends or does not begin. */
export const SESSION_END_REASONS = {
  bootFailed: 'the sandbox could not be booted in time; try again',
  workerLost: 'the worker disconnected while it booted the sandbox; try again once it is connected',
  workerRevoked: 'the worker that held the sandbox is enrolled no more',
  workerAway: 'the worker did not come back in time; try again once it is connected',
  unwatched: 'the sandbox was released because no terminal was open; try again',
  released: 'the session was released',
  ended: 'the session has ended',
} as const

const withReason = (reason: string) => ({ type: 'setReason', params: { reason } }) as const

const endings = {
  released: { target: 'closed', actions: ['setReasonFromEvent', 'release'] },
  failed: { target: 'closed', actions: ['setReasonFromEvent', 'release'] },
  'worker removed': { target: 'closed', actions: withReason(SESSION_END_REASONS.workerRevoked) },
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
    setReason: assign((_, { reason }: { reason: string }) => ({ reason })),
    setReasonFromEvent: assign(({ event }) => ('reason' in event ? { reason: event.reason } : {})),
    boot: recordEffect(({ context: { runId, requestId } }) => ({
      type: 'attach.send boot',
      runId,
      requestId,
    })),
    reopen: recordEffect(({ context }) => ({ type: 'attach.reopen views', runId: context.runId })),
    release: recordEffect(({ context: { runId, workerId } }) => ({
      type: 'attach.send release',
      runId,
      workerId,
    })),
    end: endActor(),
  },
}).createMachine({
  id: TERMINAL_SESSION,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, watched: false, reason: SESSION_END_REASONS.ended }),
  initial: 'booting',
  states: {
    booting: {
      description: 'the worker has been asked to boot the sandbox',
      entry: 'boot',
      on: {
        ready: 'unwatched',
        'timed out': { target: 'closed', actions: [withReason(SESSION_END_REASONS.bootFailed), 'release'] },
        'connection lost': {
          target: 'closed',
          actions: [withReason(SESSION_END_REASONS.workerLost), 'release'],
        },
        ...endings,
      },
    },
    unwatched: {
      description: 'the sandbox is booted, but no terminal shows it; it is released after a grace period',
      on: {
        watched: { target: 'watched', actions: 'noteWatched' },
        'timed out': { target: 'closed', actions: [withReason(SESSION_END_REASONS.unwatched), 'release'] },
        'connection lost': 'disconnected',
        exited: 'closed',
        ...endings,
      },
    },
    watched: {
      description: 'the sandbox is booted and at least one terminal shows it',
      on: {
        unwatched: { target: 'unwatched', actions: 'noteUnwatched' },
        'connection lost': 'disconnected',
        exited: 'ending',
        ...endings,
      },
    },
    disconnected: {
      description:
        'the worker is disconnected; the session continues there until the reconnect grace is over',
      on: {
        ...viewerChanges,
        'connection restored': [
          { guard: 'isWatched', target: 'watched', actions: 'reopen' },
          { target: 'unwatched', actions: 'reopen' },
        ],
        'timed out': { target: 'closed', actions: [withReason(SESSION_END_REASONS.workerAway), 'release'] },
        ...endings,
      },
    },
    ending: {
      description: 'the session has ended and the open terminals are being closed',
      on: {
        unwatched: { target: 'closed', actions: 'noteUnwatched' },
        'timed out': 'closed',
        'connection lost': 'closed',
        ...endings,
      },
    },
    closed: { description: 'the sandbox is no longer booted', entry: 'end' },
  },
})

export const terminalSessionKind: ActorKind<TerminalSessionContext> = {
  name: TERMINAL_SESSION,
  logic: terminalSessionMachine,
  supervision: {
    ...closeOnCrash,
    finalOutputs: (runId, { context }) => {
      const effect: TerminalSessionEffect = { type: 'attach.send release', runId, workerId: context.workerId }
      return [{ is: 'effect', effect }]
    },
  },
  // A session must be able to end, and to report its end, also after a disk failure.
  diskless: true,
}

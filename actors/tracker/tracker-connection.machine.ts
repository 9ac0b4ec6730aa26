/**
 * The link to the tracker: whether its credential is good, and what is done when it is not.
 *
 * Its states are those that people see. A token that runs out is refreshed a while before; a refusal refreshes it
 * once, and a token that is refused right after that needs a person. What could not be refreshed for a reason that
 * passes is tried again and again by itself. Nothing is polled meanwhile: the intake hears when to pause.
 *
 * The tokens themselves stay in the room beside it.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, restartOrFatal } from '../runtime/actor-kind.ts'
import { TRACKER_POLL, type TrackerPollEvent } from './tracker-poll.machine.ts'

export const TRACKER_CONNECTION = 'tracker'

export interface TrackerConnectionContext {
  /** What is to be said besides the state. */
  readonly error: string | null
  readonly pollMs: number
  /** There is a refresh token. */
  readonly refreshable: boolean
  /** When the token should be refreshed; null: it does not run out. */
  readonly refreshAt: number | null
  /** It has been taken since it was refreshed. */
  readonly isAccepted: boolean
  readonly failures: number
}

export type TrackerConnectionEvent =
  /** There is a tracker with a credential, maybe others than before. */
  | {
      readonly type: 'configured'
      readonly pollMs: number
      readonly refreshable: boolean
      readonly refreshAt: number | null
    }
  | { readonly type: 'unconfigured' }
  /** The tracker answered; it may have something to complain about. */
  | { readonly type: 'answered'; readonly problem: string | null }
  /** It did not take the credential. */
  | { readonly type: 'refused'; readonly problem: string }
  /** The token is about to run out, or the pause before another try is over. */
  | { readonly type: 'due' }
  /** The new pair is on disk. */
  | { readonly type: 'refreshed'; readonly refreshAt: number | null }
  | { readonly type: 'not refreshed'; readonly problem: string; readonly isStillValid: boolean }
  | { readonly type: 'refresh denied'; readonly problem: string }

export type TrackerConnectionEffect =
  | { readonly type: 'tracker.refresh' }
  /** `due` at that instant. Takes the place of what was awaited before. */
  | { readonly type: 'tracker.await'; readonly at: number | null }
  | { readonly type: 'tracker.rest'; readonly failures: number }
  /** Whoever was refused need not wait for another credential. */
  | { readonly type: 'tracker.settle' }

const { recordEffect, sendEvent } = defineActions<
  TrackerConnectionContext,
  TrackerConnectionEvent,
  TrackerConnectionEffect
>()

const toTrackerPoll = (event: TrackerPollEvent) => ({ to: { kind: TRACKER_POLL, key: TRACKER_POLL }, event })

/** Who is refused meanwhile waits with the others. */
const refreshOutcomes = {
  refused: {},
  'refresh denied': { target: '#tracker.auth-error', actions: 'noteProblem' },
} as const

export const trackerConnectionMachine = setup({
  types: {} as { context: TrackerConnectionContext; events: TrackerConnectionEvent },
  guards: {
    canRefresh: ({ context }) => context.refreshable && context.isAccepted,
    stillGood: ({ event }) => event.type === 'not refreshed' && event.isStillValid,
  },
  actions: {
    noteConfigured: assign(({ event }) =>
      event.type === 'configured'
        ? {
            pollMs: event.pollMs,
            refreshable: event.refreshable,
            refreshAt: event.refreshAt,
            error: null,
            isAccepted: true,
            failures: 0,
          }
        : {},
    ),
    noteAnswer: assign(({ event }) =>
      event.type === 'answered' ? { error: event.problem, isAccepted: true } : {},
    ),
    noteProblem: assign(({ event }) => ('problem' in event ? { error: event.problem } : {})),
    noteFailure: assign(({ context }) => ({ failures: context.failures + 1 })),
    noteRefresh: assign(({ event }) =>
      event.type === 'refreshed'
        ? { refreshAt: event.refreshAt, error: null, isAccepted: false, failures: 0 }
        : {},
    ),
    forget: assign({ error: null, refreshable: false, refreshAt: null, failures: 0 }),
    awaitExpiry: recordEffect(({ context }) => ({ type: 'tracker.await', at: context.refreshAt })),
    refresh: recordEffect(() => ({ type: 'tracker.refresh' })),
    rest: recordEffect(({ context }) => ({ type: 'tracker.rest', failures: context.failures })),
    settle: recordEffect(() => ({ type: 'tracker.settle' })),
    stopAwaiting: recordEffect(() => ({ type: 'tracker.await', at: null })),
    resumeIntake: sendEvent(({ context }) => toTrackerPoll({ type: 'resumed', pollMs: context.pollMs })),
    pauseIntake: sendEvent(() => toTrackerPoll({ type: 'paused' })),
  },
}).createMachine({
  id: 'tracker',
  options: { maxIterations: 100 },
  context: {
    error: null,
    pollMs: 30_000,
    refreshable: false,
    refreshAt: null,
    isAccepted: true,
    failures: 0,
  },
  initial: 'disconnected',
  on: {
    configured: { target: '.connected', reenter: true, actions: 'noteConfigured' },
    unconfigured: { target: '.disconnected', actions: 'forget' },
    refused: { actions: 'settle' },
  },
  states: {
    disconnected: {
      description: 'no tracker is configured, or none that we have a credential for',
      entry: ['stopAwaiting', 'pauseIntake'],
    },
    connected: {
      description: 'the credential is good as far as we know',
      entry: 'resumeIntake',
      on: { answered: { actions: 'noteAnswer' } },
      initial: 'holding',
      states: {
        holding: {
          description: 'nothing to be done about the credential',
          entry: 'awaitExpiry',
          on: {
            due: 'refreshing',
            refused: [
              { guard: 'canRefresh', target: 'refreshing' },
              { target: '#tracker.auth-error', actions: 'noteProblem' },
            ],
          },
        },
        refreshing: {
          description: 'a new token is being asked for, once for everybody',
          entry: 'refresh',
          on: {
            ...refreshOutcomes,
            refreshed: { target: 'holding', actions: 'noteRefresh' },
            'not refreshed': [
              { guard: 'stillGood', target: 'holding early', actions: 'noteFailure' },
              { target: '#tracker.refresh-failing', actions: ['noteProblem', 'noteFailure'] },
            ],
          },
        },
        'holding early': {
          description: 'it could not be refreshed yet, and has not run out either',
          entry: 'rest',
          on: {
            due: 'refreshing',
            refused: 'refreshing',
          },
        },
      },
    },
    'refresh-failing': {
      description: 'the token has run out and cannot be refreshed just now; that passes',
      entry: 'pauseIntake',
      initial: 'waiting',
      states: {
        waiting: {
          description: 'a pause before the next try',
          entry: 'rest',
          on: { due: 'refreshing' },
        },
        refreshing: {
          description: 'trying again',
          entry: 'refresh',
          on: {
            ...refreshOutcomes,
            refreshed: { target: '#tracker.connected', actions: 'noteRefresh' },
            'not refreshed': { target: 'waiting', actions: ['noteProblem', 'noteFailure'] },
          },
        },
      },
    },
    'auth-error': {
      description: 'the credential is dead; a person has to connect the tracker again',
      entry: ['stopAwaiting', 'pauseIntake'],
    },
  },
})

export const trackerConnectionKind: ActorKind = {
  name: TRACKER_CONNECTION,
  logic: trackerConnectionMachine,
  supervision: restartOrFatal,
}

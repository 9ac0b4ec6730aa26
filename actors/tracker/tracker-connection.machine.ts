/**
 * The tracker connection machine tracks whether the tracker accepts the host's credential, and refreshes its token.
 *
 * The top-level states are the ones people see. A token is refreshed some time before it expires, and once after a
 * refusal; a token that is refused right after a refresh needs a person. Temporary failures are retried without end.
 * An expired token is never used: the polling is paused until a refresh succeeds. `tracker-connection.ts` holds the
 * tokens.
 */
import { assign, setup } from 'xstate'
import { defineActions, eventTo } from '../runtime/actions.ts'
import { type ActorKind, kindName, restartOrFatal } from '../runtime/actor-kind.ts'
import { TRACKER_POLL } from './tracker-poll.machine.ts'

export const TRACKER_CONNECTION = kindName<TrackerConnectionContext, TrackerConnectionEvent>('tracker')

export interface TrackerConnectionContext {
  /** The problem that is shown to people beside the state. */
  readonly error: string | null
  readonly pollMs: number
  /** Whether the configuration has a refresh token. */
  readonly refreshable: boolean
  /** When the token should be refreshed, in wall clock milliseconds; null when it does not expire. */
  readonly refreshAt: number | null
  /** Whether the tracker has accepted the token since it was last refreshed. */
  readonly isAccepted: boolean
  readonly failures: number
}

export type TrackerConnectionEvent =
  /** A tracker with a credential is configured; either may be new. */
  | {
      readonly type: 'configured'
      readonly pollMs: number
      readonly refreshable: boolean
      readonly refreshAt: number | null
      readonly isExpired: boolean
    }
  | { readonly type: 'unconfigured' }
  /** A request was not sent, because the token has expired. */
  | { readonly type: 'expired' }
  /** The tracker answered; `problem` is what it reported with the answer. */
  | { readonly type: 'answered'; readonly problem: string | null }
  /** The tracker refused the credential. */
  | { readonly type: 'refused'; readonly problem: string }
  /** The token is about to expire, or the pause before a retry is over. */
  | { readonly type: 'refresh due' }
  /** The new pair of tokens is on disk. */
  | { readonly type: 'refreshed'; readonly refreshAt: number | null }
  | { readonly type: 'refresh failed'; readonly problem: string; readonly isStillValid: boolean }
  | { readonly type: 'refresh denied'; readonly problem: string }

export type TrackerConnectionEffect =
  | { readonly type: 'tracker.refresh' }
  /** Sends `refresh due` at that instant; null cancels. Replaces the previous timer. */
  | { readonly type: 'tracker.schedule refresh'; readonly at: number | null }
  | { readonly type: 'tracker.wait to retry'; readonly failures: number }
  /** Requests that wait for a new credential stop waiting. */
  | { readonly type: 'tracker.resume waiting' }

const { recordEffect, sendEvent } = defineActions<
  TrackerConnectionContext,
  TrackerConnectionEvent,
  TrackerConnectionEffect
>()

/** A request that is refused during a refresh waits for it like the others. */
const refreshOutcomes = {
  refused: {},
  'refresh denied': { target: '#tracker.auth-error', actions: 'noteProblem' },
} as const

/** The problem that people read while the token has expired. */
export const TOKEN_EXPIRED = {
  refreshing: 'the token has expired and is being refreshed',
  dead: 'the token has expired; connect the tracker again',
} as const

export const trackerConnectionMachine = setup({
  types: {} as { context: TrackerConnectionContext; events: TrackerConnectionEvent },
  guards: {
    isExpired: ({ event }) => event.type === 'configured' && event.isExpired,
    isExpiredAndRefreshable: ({ event }) =>
      event.type === 'configured' && event.isExpired && event.refreshable,
    isRefreshable: ({ context }) => context.refreshable,
    mayRefresh: ({ context }) => context.refreshable && context.isAccepted,
    isStillValid: ({ event }) => event.type === 'refresh failed' && event.isStillValid,
  },
  actions: {
    applyConfiguration: assign(({ event }) =>
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
    noteExpiry: assign({ error: TOKEN_EXPIRED.refreshing }),
    noteDeadToken: assign({ error: TOKEN_EXPIRED.dead }),
    noteFailure: assign(({ context }) => ({ failures: context.failures + 1 })),
    noteRefresh: assign(({ event }) =>
      event.type === 'refreshed'
        ? { refreshAt: event.refreshAt, error: null, isAccepted: false, failures: 0 }
        : {},
    ),
    reset: assign({ error: null, refreshable: false, refreshAt: null, failures: 0 }),
    scheduleRefresh: recordEffect(({ context }) => ({
      type: 'tracker.schedule refresh',
      at: context.refreshAt,
    })),
    refresh: recordEffect(() => ({ type: 'tracker.refresh' })),
    waitToRetry: recordEffect(({ context }) => ({
      type: 'tracker.wait to retry',
      failures: context.failures,
    })),
    resumeWaiting: recordEffect(() => ({ type: 'tracker.resume waiting' })),
    cancelRefresh: recordEffect(() => ({ type: 'tracker.schedule refresh', at: null })),
    resumePolling: sendEvent(({ context }) =>
      eventTo(TRACKER_POLL, TRACKER_POLL, { type: 'resumed', pollMs: context.pollMs }),
    ),
    pausePolling: sendEvent(() => eventTo(TRACKER_POLL, TRACKER_POLL, { type: 'paused' })),
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
    configured: [
      {
        guard: 'isExpiredAndRefreshable',
        target: '.refresh-failing.refreshing',
        reenter: true,
        actions: ['applyConfiguration', 'noteExpiry'],
      },
      {
        guard: 'isExpired',
        target: '.auth-error',
        reenter: true,
        actions: ['applyConfiguration', 'noteDeadToken'],
      },
      { target: '.connected', reenter: true, actions: 'applyConfiguration' },
    ],
    unconfigured: { target: '.disconnected', actions: 'reset' },
    refused: { actions: 'resumeWaiting' },
  },
  states: {
    disconnected: {
      description: 'no tracker is configured, or it has no credential',
      entry: ['cancelRefresh', 'pausePolling'],
    },
    connected: {
      description: 'the tracker accepted the credential, or has not been asked yet',
      entry: 'resumePolling',
      on: {
        answered: { actions: 'noteAnswer' },
        expired: [
          { guard: 'isRefreshable', target: '#tracker.refresh-failing.refreshing', actions: 'noteExpiry' },
          { target: '#tracker.auth-error', actions: 'noteDeadToken' },
        ],
      },
      initial: 'valid',
      states: {
        valid: {
          description: 'the credential needs no action until the refresh is due',
          entry: 'scheduleRefresh',
          on: {
            'refresh due': 'refreshing',
            refused: [
              { guard: 'mayRefresh', target: 'refreshing' },
              { target: '#tracker.auth-error', actions: 'noteProblem' },
            ],
          },
        },
        refreshing: {
          description: 'one refresh of the token is under way; refused requests wait for it',
          entry: 'refresh',
          on: {
            ...refreshOutcomes,
            refreshed: { target: 'valid', actions: 'noteRefresh' },
            'refresh failed': [
              { guard: 'isStillValid', target: 'valid, retrying', actions: 'noteFailure' },
              { target: '#tracker.refresh-failing', actions: ['noteProblem', 'noteFailure'] },
            ],
          },
        },
        'valid, retrying': {
          description: 'the refresh failed, but the token has not expired; a retry follows',
          entry: 'waitToRetry',
          on: {
            'refresh due': 'refreshing',
            refused: 'refreshing',
          },
        },
      },
    },
    'refresh-failing': {
      description:
        'the token has expired; it is being refreshed, or its refresh fails for a temporary reason',
      entry: 'pausePolling',
      initial: 'waiting',
      states: {
        waiting: {
          description: 'a pause before the next attempt',
          entry: 'waitToRetry',
          on: { 'refresh due': 'refreshing' },
        },
        refreshing: {
          description: 'an attempt is under way',
          entry: 'refresh',
          on: {
            ...refreshOutcomes,
            refreshed: { target: '#tracker.connected', actions: 'noteRefresh' },
            'refresh failed': { target: 'waiting', actions: ['noteProblem', 'noteFailure'] },
          },
        },
      },
    },
    'auth-error': {
      description: 'the tracker refuses the credential; a person has to connect the tracker again',
      entry: ['cancelRefresh', 'pausePolling'],
    },
  },
})

export const trackerConnectionKind: ActorKind = {
  name: TRACKER_CONNECTION,
  singleton: true,
  logic: trackerConnectionMachine,
  supervision: restartOrFatal,
}

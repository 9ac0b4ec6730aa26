/**
 * The state machine of the worker's connection to its host: connect, register, reconnect, until there is no point.
 *
 * The machine sees only the beginning and the end of each connection; frames go elsewhere. The actor is not stored, so
 * a worker can connect and send heartbeats while its disk fails.
 */
import { assign, setup } from 'xstate'
import { defineActions, eventTo } from '../runtime/actions.ts'
import { type ActorKind, restartOrFatal } from '../runtime/actor-kind.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import type { DaemonEnd } from './daemon-context.ts'

export interface HostConnectionContext {
  /** Failed connections in a row. */
  readonly failures: number
  /** Why there is no connection, as far as it is known. */
  readonly trouble: string | null
  readonly end: DaemonEnd | null
}

export type HostConnectionEvent =
  | { readonly type: 'connect requested' }
  | { readonly type: 'opened' }
  | { readonly type: 'registered' }
  /** The connection was lost for a passing reason. */
  | { readonly type: 'lost'; readonly reason: string }
  /** The host rejects something that only an update can change, while the worker may still hold unreported work. */
  | { readonly type: 'update needed'; readonly reason: string }
  /** The host refused keys that it may not know yet. */
  | { readonly type: 'form refused' }
  | { readonly type: 'wait over' }
  /** The host or the worker's own disk rules out every further connection. */
  | { readonly type: 'refused for good'; readonly end: DaemonEnd }
  /** The daemon ends. */
  | { readonly type: 'disconnect requested' }

export type HostConnectionEffect =
  | { readonly type: 'connection.dial' }
  | { readonly type: 'connection.register' }
  | { readonly type: 'connection.start heartbeats' }
  | { readonly type: 'connection.wait'; readonly failures: number }
  | { readonly type: 'connection.wait long' }
  | { readonly type: 'connection.close' }

const { recordEffect, sendEvent, endActor } = defineActions<
  HostConnectionContext,
  HostConnectionEvent,
  HostConnectionEffect
>()

const endTransitions = {
  'refused for good': { target: 'ended', actions: ['noteEnd', 'sendEnd'] },
  'disconnect requested': 'ended',
} as const

const lossTransitions = {
  lost: { target: 'waiting', actions: 'noteLoss' },
  'update needed': { target: 'waitingForUpdate', actions: 'noteLoss' },
  ...endTransitions,
} as const

export const hostConnectionMachine = setup({
  types: {} as { context: HostConnectionContext; events: HostConnectionEvent },
  actions: {
    dial: recordEffect(() => ({ type: 'connection.dial' })),
    register: recordEffect(() => ({ type: 'connection.register' })),
    startHeartbeats: recordEffect(() => ({ type: 'connection.start heartbeats' })),
    wait: recordEffect(({ context }) => ({ type: 'connection.wait', failures: context.failures })),
    waitLong: recordEffect(() => ({ type: 'connection.wait long' })),
    close: recordEffect(() => ({ type: 'connection.close' })),
    noteLoss: assign(({ context, event }) => ({
      failures: context.failures + 1,
      trouble: 'reason' in event ? event.reason : context.trouble,
    })),
    noteSuccess: assign({ failures: 0, trouble: null }),
    noteEnd: assign(({ event }) => (event.type === 'refused for good' ? { end: event.end } : {})),
    sendEnd: sendEvent(({ event }) =>
      event.type === 'refused for good'
        ? eventTo(DAEMON, DAEMON, { type: 'host connection ended', end: event.end })
        : [],
    ),
    end: endActor(),
  },
}).createMachine({
  id: 'link',
  options: { maxIterations: 100 },
  context: { failures: 0, trouble: null, end: null },
  initial: 'idle',
  states: {
    idle: {
      description: 'the daemon restores what is on disk; no connection was tried yet',
      on: { 'connect requested': 'dialling', 'disconnect requested': 'ended' },
    },
    dialling: {
      description: 'a connection to the host is being opened',
      entry: 'dial',
      on: { opened: 'registering', ...lossTransitions },
    },
    registering: {
      description: 'the worker has sent its credential and its leases, and waits for the answer',
      entry: 'register',
      on: {
        registered: { target: 'online', actions: 'noteSuccess' },
        'form refused': 'dialling',
        ...lossTransitions,
      },
    },
    online: {
      description: 'registered with the host; heartbeats are sent',
      entry: 'startHeartbeats',
      on: lossTransitions,
    },
    waiting: {
      description: 'not connected; the next attempt follows after a growing pause',
      entry: 'wait',
      on: { 'wait over': 'dialling', ...endTransitions },
    },
    waitingForUpdate: {
      description:
        'the host does not understand this version, which an update may cure; an attempt follows every 5 minutes',
      entry: 'waitLong',
      on: { 'wait over': 'dialling', ...endTransitions },
    },
    ended: {
      description: 'disconnected, and no attempt follows',
      entry: ['close', 'end'],
    },
  },
})

export const hostConnectionKind: ActorKind = {
  name: HOST_CONNECTION,
  singleton: true,
  logic: hostConnectionMachine,
  supervision: restartOrFatal,
  diskless: true,
}

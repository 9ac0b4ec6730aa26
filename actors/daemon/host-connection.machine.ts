/**
 * The worker's link to its host: one line after another, until there is no point in dialling again.
 *
 * What is said on a line never comes in here; only its beginning and its end do. Whatever the disk does, a worker must
 * be able to say that it lives, so nothing of this waits for a commit.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, restartOrFatal } from '../runtime/actor-kind.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import type { DaemonEnd } from './daemon-dependencies.ts'

export interface HostConnectionContext {
  /** Lines in a row that came to nothing. */
  readonly failures: number
  /** Why there is no line, as far as it is known. */
  readonly trouble: string | null
  readonly end: DaemonEnd | null
}

export type HostConnectionEvent =
  | { readonly type: 'go' }
  | { readonly type: 'opened' }
  | { readonly type: 'welcomed' }
  /** The line is gone, for whatever passing reason. */
  | { readonly type: 'lost'; readonly reason: string }
  /** The host takes offence at something that only an update cures, and there may be work to tell it of. */
  | { readonly type: 'put off'; readonly reason: string }
  | { readonly type: 'wait over' }
  /** For good. */
  | { readonly type: 'refused'; readonly end: DaemonEnd }
  /** The daemon ends. */
  | { readonly type: 'hang up' }

export type HostConnectionEffect =
  | { readonly type: 'link.dial' }
  | { readonly type: 'link.register' }
  | { readonly type: 'link.beat' }
  | { readonly type: 'link.wait'; readonly failures: number }
  | { readonly type: 'link.wait long' }
  | { readonly type: 'link.hang up' }

const { recordEffect, sendEvent, endActor } = defineActions<
  HostConnectionContext,
  HostConnectionEvent,
  HostConnectionEffect
>()

const endTransitions = {
  refused: { target: 'ended', actions: ['noteEnd', 'tellEnd'] },
  'hang up': 'ended',
} as const

const lossTransitions = {
  lost: { target: 'waiting', actions: 'noteLoss' },
  'put off': { target: 'shunned', actions: 'noteLoss' },
  ...endTransitions,
} as const

export const hostConnectionMachine = setup({
  types: {} as { context: HostConnectionContext; events: HostConnectionEvent },
  actions: {
    dial: recordEffect(() => ({ type: 'link.dial' })),
    register: recordEffect(() => ({ type: 'link.register' })),
    beat: recordEffect(() => ({ type: 'link.beat' })),
    wait: recordEffect(({ context }) => ({ type: 'link.wait', failures: context.failures })),
    waitLong: recordEffect(() => ({ type: 'link.wait long' })),
    hangUp: recordEffect(() => ({ type: 'link.hang up' })),
    noteLoss: assign(({ context, event }) => ({
      failures: context.failures + 1,
      trouble: 'reason' in event ? event.reason : context.trouble,
    })),
    noteWelcome: assign({ failures: 0, trouble: null }),
    noteEnd: assign(({ event }) => (event.type === 'refused' ? { end: event.end } : {})),
    tellEnd: sendEvent(({ event }) =>
      event.type === 'refused'
        ? { to: { kind: DAEMON, key: DAEMON }, event: { type: 'link ended', end: event.end } }
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
      description: 'what is on disk is being brought back; nobody has been called yet',
      on: { go: 'dialling', 'hang up': 'ended' },
    },
    dialling: {
      description: 'a line is being opened',
      entry: 'dial',
      on: { opened: 'registering', ...lossTransitions },
    },
    registering: {
      description: 'it has said who it is and which leases it has',
      entry: 'register',
      on: { welcomed: { target: 'online', actions: 'noteWelcome' }, ...lossTransitions },
    },
    online: {
      description: 'the host knows it; heartbeats go out',
      entry: 'beat',
      on: lossTransitions,
    },
    waiting: {
      description: 'there is no line; the next try comes after a pause that grows',
      entry: 'wait',
      on: { 'wait over': 'dialling', ...endTransitions },
    },
    shunned: {
      description:
        'the host does not understand it any more, which an update may cure; it tries now and then',
      entry: 'waitLong',
      on: { 'wait over': 'dialling', ...endTransitions },
    },
    ended: {
      description: 'no line any more, and none to come',
      entry: ['hangUp', 'end'],
    },
  },
})

export const hostConnectionKind: ActorKind = {
  name: HOST_CONNECTION,
  logic: hostConnectionMachine,
  supervision: restartOrFatal,
  diskless: true,
}

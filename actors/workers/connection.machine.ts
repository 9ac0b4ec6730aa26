/**
 * One line to somebody who may be a worker: from the first byte to the last.
 *
 * Once it is registered its frames count, until it falls silent, closes, or a newer line of the same worker takes its
 * place. What it says never comes in here; the channel hears it, and tells what follows from it.
 */
import { assign, setup } from 'xstate'
import type { RejectionCode } from '../../protocol/frames.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash } from '../runtime/actor-kind.ts'
import { CONNECTION } from './worker.names.ts'

export interface ConnectionContext {
  readonly number: number
  readonly workerId: string | null
  readonly since: string | null
}

export interface ConnectionInput {
  readonly number: number
}

export type ConnectionEvent =
  | { readonly type: 'registered'; readonly workerId: string; readonly at: string }
  /** What was said is not acceptable, or nothing was said in time. */
  | { readonly type: 'refused'; readonly code: RejectionCode; readonly reason: string }
  | { readonly type: 'fell silent' }
  | { readonly type: 'replaced' }
  | { readonly type: 'revoked'; readonly reason: string }
  | { readonly type: 'gone' }

export type ConnectionEffect =
  | {
      readonly type: 'fleet.reject'
      readonly connection: number
      readonly code: RejectionCode
      readonly reason: string
    }
  | { readonly type: 'fleet.hang up'; readonly connection: number; readonly reason: string }
  | { readonly type: 'fleet.say revoked'; readonly connection: number; readonly reason: string }

const { recordEffect, endActor } = defineActions<ConnectionContext, ConnectionEvent, ConnectionEffect>()

const endings = {
  refused: { target: 'closed', actions: 'reject' },
  gone: 'closed',
} as const

export const connectionMachine = setup({
  types: {} as { context: ConnectionContext; events: ConnectionEvent; input: ConnectionInput },
  actions: {
    noteWorker: assign(({ event }) =>
      event.type === 'registered' ? { workerId: event.workerId, since: event.at } : {},
    ),
    reject: recordEffect(({ context, event }) =>
      event.type === 'refused'
        ? { type: 'fleet.reject', connection: context.number, code: event.code, reason: event.reason }
        : [],
    ),
    rejectReplaced: recordEffect(({ context }) => ({
      type: 'fleet.reject',
      connection: context.number,
      code: 'protocol',
      reason: 'replaced by a newer connection',
    })),
    hangUp: recordEffect(({ context }) => ({
      type: 'fleet.hang up',
      connection: context.number,
      reason: 'nothing was heard for longer than the heartbeat timeout',
    })),
    sayRevoked: recordEffect(({ context, event }) => ({
      type: 'fleet.say revoked',
      connection: context.number,
      reason: event.type === 'revoked' ? event.reason : 'revoked',
    })),
    end: endActor(),
  },
}).createMachine({
  id: 'connection',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ number: input.number, workerId: null, since: null }),
  initial: 'awaiting',
  states: {
    awaiting: {
      description: 'open; it has ten seconds to say who it is',
      on: { registered: { target: 'registered', actions: 'noteWorker' }, ...endings },
    },
    registered: {
      description: 'the one line of its worker',
      on: {
        'fell silent': { target: 'closed', actions: 'hangUp' },
        replaced: { target: 'closed', actions: 'rejectReplaced' },
        revoked: { target: 'closed', actions: 'sayRevoked' },
        ...endings,
      },
    },
    closed: { description: 'nothing that still comes of it counts', entry: 'end' },
  },
})

export const connectionKind: ActorKind = {
  name: CONNECTION,
  logic: connectionMachine,
  supervision: closeOnCrash,
  // Whatever the disk does, a line must be able to end, and its end to be told.
  diskless: true,
}

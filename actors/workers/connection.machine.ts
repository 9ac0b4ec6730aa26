/**
 * The connection machine follows one socket of a possible worker from its opening to its end.
 *
 * After registration the connection counts as its worker's, until it falls silent, closes, or a newer connection of the
 * same worker replaces it. Frames never reach this machine: the worker frame router reads them and sends the events.
 */
import { assign, setup } from 'xstate'
import type { RejectionCode } from '../../protocol/frames.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, closeOnCrash } from '../runtime/actor-kind.ts'
import { CONNECTION } from './worker.machine.ts'

/** The reason in the frame that ends a replaced connection. Workers read its code only. */
export const CONNECTION_REPLACED = 'replaced by a newer connection'
/** The close reason of a connection that fell silent. */
export const CONNECTION_SILENT = 'no frame arrived within the heartbeat timeout'

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
  /** A frame was unacceptable, or no `register` arrived in time. */
  | { readonly type: 'refused'; readonly code: RejectionCode; readonly reason: string }
  /** No frame arrived within the heartbeat timeout. */
  | { readonly type: 'fell silent' }
  /** The same worker registered on a newer connection. */
  | { readonly type: 'replaced' }
  | { readonly type: 'revoked'; readonly reason: string }
  | { readonly type: 'socket closed' }

export type ConnectionEffect =
  | {
      readonly type: 'worker.reject connection'
      readonly connection: number
      readonly code: RejectionCode
      readonly reason: string
    }
  | { readonly type: 'worker.close connection'; readonly connection: number; readonly reason: string }
  | { readonly type: 'worker.send revoked'; readonly connection: number; readonly reason: string }

/** Effects of workers and their connections, run after the commit that caused them. */
export type WorkerEffect =
  | ConnectionEffect
  /** The enrollment is on disk, so the worker may receive its credential. */
  | { readonly type: 'worker.send registered'; readonly connection: number }
  | {
      readonly type: 'worker.refuse connection'
      readonly connection: number
      readonly code: RejectionCode
      readonly reason: string
    }
  | { readonly type: 'worker.revoke connection'; readonly connection: number; readonly reason: string }
  | { readonly type: 'worker.send state'; readonly workerId: string }
  /** Tells a worker to delete the sandbox of a finished run. */
  | { readonly type: 'worker.send discard'; readonly workerId: string; readonly runId: string }
  /** Sends the current workers to the dashboards. */
  | { readonly type: 'worker.push workers' }

const { recordEffect, endActor } = defineActions<ConnectionContext, ConnectionEvent, ConnectionEffect>()

const endings = {
  refused: { target: 'closed', actions: 'reject' },
  'socket closed': 'closed',
} as const

export const connectionMachine = setup({
  types: {} as { context: ConnectionContext; events: ConnectionEvent; input: ConnectionInput },
  actions: {
    noteWorker: assign(({ event }) =>
      event.type === 'registered' ? { workerId: event.workerId, since: event.at } : {},
    ),
    reject: recordEffect(({ context, event }) =>
      event.type === 'refused'
        ? {
            type: 'worker.reject connection',
            connection: context.number,
            code: event.code,
            reason: event.reason,
          }
        : [],
    ),
    rejectReplaced: recordEffect(({ context }) => ({
      type: 'worker.reject connection',
      connection: context.number,
      code: 'protocol',
      reason: CONNECTION_REPLACED,
    })),
    closeSilent: recordEffect(({ context }) => ({
      type: 'worker.close connection',
      connection: context.number,
      reason: CONNECTION_SILENT,
    })),
    sendRevoked: recordEffect(({ context, event }) => ({
      type: 'worker.send revoked',
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
      description: 'the socket is open; the worker has ten seconds to register',
      on: { registered: { target: 'registered', actions: 'noteWorker' }, ...endings },
    },
    registered: {
      description: 'the current connection of its worker',
      on: {
        'fell silent': { target: 'closed', actions: 'closeSilent' },
        replaced: { target: 'closed', actions: 'rejectReplaced' },
        revoked: { target: 'closed', actions: 'sendRevoked' },
        ...endings,
      },
    },
    closed: { description: 'frames that still arrive are ignored', entry: 'end' },
  },
})

export const connectionKind: ActorKind = {
  name: CONNECTION,
  logic: connectionMachine,
  supervision: closeOnCrash,
  // A connection must be able to end, and to report its end, also after a disk failure.
  diskless: true,
}

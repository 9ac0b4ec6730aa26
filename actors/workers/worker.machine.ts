/**
 * The worker machine follows one enrolled worker, whether it is connected or not, until it is revoked or, when it is
 * ephemeral, stays away.
 *
 * The host stores only the hash of the worker's credential. Revoking deletes the record from disk; the worker's leases
 * then end at their own deadlines, because its agents may still be running.
 */
import { assign, setup } from 'xstate'
import { addDrainHolder, drainHolders, releaseDrainHolder } from '../../core/fleet/drain-holders.ts'
import { snapshotShape, WorkerFields } from '../../protocol/actor-snapshots.ts'
import type { DrainHolder, WorkerCapabilities } from '../../protocol/worker.ts'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import type { ConnectionContext, ConnectionEvent, ConnectionInput } from './connection.machine.ts'

/** Names of the actor kinds of enrolled workers and their connections. */
export const WORKER = kindName<WorkerContext, WorkerEvent, WorkerInput>('worker')
export const CONNECTION = kindName<ConnectionContext, ConnectionEvent, ConnectionInput>('connection')

export type WorkerContext = WorkerFields

export interface WorkerInput {
  readonly id: string
  readonly name: string
  readonly hash: string
  readonly enrolledAt: string
  readonly local: boolean
  readonly capabilities: WorkerCapabilities
  /** The id of the join key that enrolled the worker. */
  readonly joinKey?: string
  readonly ephemeral?: true
}

export type WorkerEvent =
  /** Without capabilities: they are as before. */
  | { readonly type: 'seen'; readonly at: string; readonly capabilities?: WorkerCapabilities }
  | { readonly type: 'proven' }
  | { readonly type: 'renamed'; readonly name: string }
  | { readonly type: 'drained'; readonly by: DrainHolder }
  /** An operator ends every drain. */
  | { readonly type: 'enabled' }
  /** A holder ends its own drain; the worker drains on while another holds it. */
  | { readonly type: 'drain released'; readonly by: DrainHolder }
  | { readonly type: 'revoked' }
  /** The worker did not prove in time that it received its credential. */
  | { readonly type: 'proof timed out' }
  /** An ephemeral worker has neither a connection nor a lease. `until`: wall milliseconds. */
  | { readonly type: 'vacated'; readonly until: number }
  /** An ephemeral worker did not come back in time. */
  | { readonly type: 'deadline.vacancy' }

const { endActor, setDeadline, cancelDeadline } = defineActions<WorkerContext, WorkerEvent, never>()

const transitionsOfAll = {
  seen: [
    { guard: 'isVacant', actions: ['noteSeen', 'noteReturn', 'cancelVacancyDeadline'] },
    { actions: 'noteSeen' },
  ],
  proven: { actions: 'noteProof' },
  renamed: { actions: 'rename' },
  revoked: 'revoked',
  'proof timed out': 'revoked',
  vacated: { guard: 'isOccupied', actions: ['noteVacancy', 'setVacancyDeadline'] },
  'deadline.vacancy': 'revoked',
} as const

export const workerMachine = setup({
  types: {} as { context: WorkerContext; events: WorkerEvent; input: WorkerInput },
  guards: {
    isVacant: ({ context }) => context.vacant === true,
    isOccupied: ({ context }) => context.vacant !== true,
    isLastHolder: ({ context, event }) =>
      event.type === 'drain released' && releaseDrainHolder(context.drainedBy, event.by).length === 0,
  },
  actions: {
    noteSeen: assign(({ context, event }) =>
      event.type === 'seen'
        ? { lastSeenAt: event.at, capabilities: event.capabilities ?? context.capabilities }
        : {},
    ),
    noteVacancy: assign({ vacant: true }),
    setVacancyDeadline: setDeadline(({ event }) => ({
      name: 'vacancy',
      at: event.type === 'vacated' ? event.until : 0,
    })),
    noteReturn: assign({ vacant: false }),
    cancelVacancyDeadline: cancelDeadline('vacancy'),
    noteProof: assign({ proven: true }),
    rename: assign(({ event }) => (event.type === 'renamed' ? { name: event.name } : {})),
    noteHolder: assign(({ context, event }) =>
      event.type === 'drained' ? { drainedBy: [...addDrainHolder(context.drainedBy ?? [], event.by)] } : {},
    ),
    addHolder: assign(({ context, event }) =>
      event.type === 'drained'
        ? { drainedBy: [...addDrainHolder(drainHolders(context.drainedBy), event.by)] }
        : {},
    ),
    removeHolder: assign(({ context, event }) =>
      event.type === 'drain released'
        ? { drainedBy: [...releaseDrainHolder(context.drainedBy, event.by)] }
        : {},
    ),
    clearHolders: assign({ drainedBy: [] }),
    end: endActor(),
  },
}).createMachine({
  id: 'worker',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, lastSeenAt: input.enrolledAt, proven: false }),
  initial: 'enrolling',
  states: {
    enrolling: {
      description: 'the worker was sent a credential and has not yet proven that it arrived',
      on: {
        ...transitionsOfAll,
        proven: { target: 'active', actions: 'noteProof' },
        drained: { target: 'draining', actions: 'noteHolder' },
      },
    },
    active: {
      description: 'the worker takes runs while it is connected and has a free slot',
      on: { ...transitionsOfAll, drained: { target: 'draining', actions: 'noteHolder' } },
    },
    draining: {
      description: 'the worker finishes its runs and takes no new ones',
      on: {
        ...transitionsOfAll,
        drained: { actions: 'addHolder' },
        enabled: { target: 'active', actions: 'clearHolders' },
        'drain released': [
          { guard: 'isLastHolder', target: 'active', actions: 'clearHolders' },
          { actions: 'removeHolder' },
        ],
      },
    },
    revoked: {
      description: 'the worker is no longer enrolled and its credential is invalid',
      entry: 'end',
    },
  },
})

export const workerKind: ActorKind = {
  name: WORKER,
  logic: workerMachine,
  codec: createSnapshotCodec({
    version: 9,
    states: { enrolling: 'e', active: 'a', draining: 'd', revoked: 'x' },
    schema: snapshotShape(WorkerFields),
    // Version 2: capabilities may name what confines a run. Version 3: capabilities may name the agents.
    // Version 4: capabilities may name the version of git. Version 5: a drain names who holds it, and capabilities say
    // that a worker takes one run, or ends.
    // Version 6: a worker may be of a join key, and ephemeral. Version 7: capabilities may say that it publishes again.
    // Version 8: capabilities may say that sessions are continued. Version 9: that work with keys is held.
    lifts: {
      1: (record) => ({ ...record, v: 2 }),
      2: (record) => ({ ...record, v: 3 }),
      3: (record) => ({ ...record, v: 4 }),
      4: (record) => ({ ...record, v: 5 }),
      5: (record) => ({ ...record, v: 6 }),
      6: (record) => ({ ...record, v: 7 }),
      7: (record) => ({ ...record, v: 8 }),
      8: (record) => ({ ...record, v: 9 }),
    },
  }),
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 5,
    withinMs: 60_000,
    // The record is the only way for a remote machine to register again.
    finally: 'kept',
  },
}

/**
 * An enrolled worker: a machine that may execute runs, whether it is connected or not.
 *
 * Its credential is known here by its hash alone. Revoked, it is gone from the disk; its leases then meet their own
 * deadlines, because its agents may still be running.
 */
import { assign, setup } from 'xstate'
import { snapshotShape, WorkerFields } from '../../protocol/actor-snapshots.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import { WORKER } from './worker.names.ts'

export type WorkerContext = WorkerFields

export interface WorkerInput {
  readonly id: string
  readonly name: string
  readonly hash: string
  readonly enrolledAt: string
  readonly local: boolean
  readonly capabilities: WorkerCapabilities
}

export type WorkerEvent =
  | { readonly type: 'seen'; readonly at: string; readonly capabilities: WorkerCapabilities }
  | { readonly type: 'proven' }
  | { readonly type: 'renamed'; readonly name: string }
  | { readonly type: 'drained' }
  | { readonly type: 'enabled' }
  | { readonly type: 'revoked' }
  /** It had time enough to show that it got its credential. */
  | { readonly type: 'never proved' }

const { endActor } = defineActions<WorkerContext, WorkerEvent, never>()

const transitionsOfAll = {
  seen: { actions: 'noteSeen' },
  proven: { actions: 'noteProof' },
  renamed: { actions: 'rename' },
  revoked: 'revoked',
  'never proved': 'revoked',
} as const

export const workerMachine = setup({
  types: {} as { context: WorkerContext; events: WorkerEvent; input: WorkerInput },
  actions: {
    noteSeen: assign(({ event }) =>
      event.type === 'seen' ? { lastSeenAt: event.at, capabilities: event.capabilities } : {},
    ),
    noteProof: assign({ proven: true }),
    rename: assign(({ event }) => (event.type === 'renamed' ? { name: event.name } : {})),
    end: endActor(),
  },
}).createMachine({
  id: 'worker',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, lastSeenAt: input.enrolledAt, proven: false }),
  initial: 'enrolling',
  states: {
    enrolling: {
      description: 'it was given a credential, and has not shown yet that it arrived',
      on: {
        ...transitionsOfAll,
        proven: { target: 'active', actions: 'noteProof' },
        drained: 'draining',
      },
    },
    active: {
      description: 'takes runs whenever it is connected and has room',
      on: { ...transitionsOfAll, drained: 'draining' },
    },
    draining: {
      description: 'finishes what it has and takes nothing new',
      on: { ...transitionsOfAll, enabled: 'active' },
    },
    revoked: {
      description: 'its credential is good for nothing any more',
      entry: 'end',
    },
  },
})

export const workerKind: ActorKind = {
  name: WORKER,
  logic: workerMachine,
  codec: createSnapshotCodec({
    version: 2,
    states: { enrolling: 'e', active: 'a', draining: 'd', revoked: 'x' },
    schema: snapshotShape(WorkerFields),
    // 2: capabilities may say what holds a run down; an older worker did not.
    lifts: { 1: (record) => ({ ...record, v: 2 }) },
  }),
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 5,
    withinMs: 60_000,
    // Its enrollment is the only way back in for a machine that may be far away.
    finally: 'kept',
  },
}

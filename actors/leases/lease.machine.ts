/**
 * The lease machine: a lease is the right of one worker to execute one run, from its commit until its only end.
 *
 * The lease id is the fencing token: frames that carry it after the end have no effect. The lease manager keeps the
 * timers on the monotonic clock and sends them as events. A restart starts them again, which only lengthens a lease.
 */
import { assign, setup } from 'xstate'
import { extend } from '../../core/extend.ts'
import { LeaseFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import type { RunPull } from '../../protocol/run.ts'
import { RUN } from '../runs/run.machine.ts'
import { defineActions, eventTo } from '../runtime/actions.ts'
import type { ActorKind, ImpliedOutput } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import { LEASE } from './lease.names.ts'

/** How a lease ended. Late frames of a lease that ended `completed` are answered with `run-complete-ack`. */
export type LeaseEnd = NonNullable<LeaseFields['end']>

/** `termMs`: how long the lease lives without a frame of its worker, as promised when it was granted. */
export type LeaseContext = LeaseFields

export interface LeaseInput {
  readonly id: string
  readonly runId: string
  readonly workerId: string
  readonly termMs: number
  readonly grantedAt: string
}

export type LeaseEvent =
  | { readonly type: 'accepted'; readonly at: string; readonly workerName?: string | undefined }
  | { readonly type: 'rejected'; readonly at: string; readonly reason: string }
  | { readonly type: 'unanswered'; readonly at: string }
  /** The dispatch was not sent and will not be. */
  | { readonly type: 'withdrawn'; readonly at: string; readonly reason: string }
  | { readonly type: 'worker lost' }
  | { readonly type: 'worker claimed lease'; readonly at: string; readonly workerName?: string | undefined }
  | { readonly type: 'worker denied lease'; readonly at: string }
  | { readonly type: 'lease expired'; readonly at: string }
  | {
      readonly type: 'completed'
      readonly at: string
      readonly outcome: RunOutcome
      readonly retentionHours: number
      /** The pull request that the outcome names. */
      readonly pull?: RunPull
    }
  | { readonly type: 'cancel requested'; readonly reason: string }
  | { readonly type: 'cancel timed out'; readonly at: string }
  /** Frames of the worker could not be applied, several times in a row. */
  | { readonly type: 'frames failed'; readonly at: string }
  /** The run does not exist or has another lease. Only a bug or a damaged store can cause this. */
  | { readonly type: 'orphaned' }

export type LeaseEffect =
  | { readonly type: 'lease.dispatch'; readonly leaseId: string }
  | { readonly type: 'lease.await worker'; readonly leaseId: string; readonly arrived: boolean }
  | {
      readonly type: 'lease.send cancel'
      readonly leaseId: string
      readonly workerId: string
      readonly reason: string
    }
  | { readonly type: 'lease.acknowledge completion'; readonly leaseId: string; readonly workerId: string }
  | {
      readonly type: 'lease.fence'
      readonly leaseId: string
      readonly workerId: string
      readonly reason: string
    }

const { recordEffect, sendEvent, endActor } = defineActions<LeaseContext, LeaseEvent, LeaseEffect>()

const instantOf = (event: LeaseEvent): string => ('at' in event ? event.at : '')

export const leaseMachine = setup({
  types: {} as { context: LeaseContext; events: LeaseEvent; input: LeaseInput },
  actions: {
    dispatch: recordEffect(({ context }) => ({ type: 'lease.dispatch', leaseId: context.id })),
    awaitClaim: recordEffect(({ context }) => ({
      type: 'lease.await worker',
      leaseId: context.id,
      arrived: false,
    })),
    awaitReturn: recordEffect(({ context }) => ({
      type: 'lease.await worker',
      leaseId: context.id,
      arrived: true,
    })),
    sendCancel: recordEffect(({ context }) => ({
      type: 'lease.send cancel',
      leaseId: context.id,
      workerId: context.workerId,
      reason: context.why ?? 'cancelled',
    })),
    acknowledgeCompletion: recordEffect(({ context }) => ({
      type: 'lease.acknowledge completion',
      leaseId: context.id,
      workerId: context.workerId,
    })),
    fence: recordEffect(({ context }) => ({
      type: 'lease.fence',
      leaseId: context.id,
      workerId: context.workerId,
      reason: context.why ?? 'the lease has ended',
    })),
    recordReason: assign(({ event }) => ('reason' in event ? { why: event.reason } : {})),
    endCompleted: assign({ end: 'completed' as const }),
    endDeclined: assign(({ event }) => ({
      end: 'declined' as const,
      why:
        'reason' in event ? event.reason : event.type === 'unanswered' ? 'no answer to the dispatch' : null,
    })),
    endLost: assign({ end: 'lost' as const, why: 'its worker ended or gave it up meanwhile' }),
    endUnreadable: assign({ end: 'lost' as const, why: 'frames of the worker could not be applied' }),
    endOrphaned: assign({ end: 'lost' as const, why: 'the run does not exist or has another lease' }),
    endExpired: assign({ end: 'expired' as const, why: 'the worker did not come back in time' }),
    endFenced: assign(({ context }) => ({
      end: 'fenced' as const,
      why: context.why ?? 'the run was cancelled',
    })),
    reportAccepted: sendEvent(({ context, event }) =>
      eventTo(RUN, context.runId, {
        type: 'accepted',
        leaseId: context.id,
        workerId: context.workerId,
        workerName: 'workerName' in event ? event.workerName : undefined,
        at: instantOf(event),
      }),
    ),
    reportDeclined: sendEvent(({ context, event }) =>
      eventTo(RUN, context.runId, { type: 'declined', leaseId: context.id, at: instantOf(event) }),
    ),
    reportLost: sendEvent(({ context, event }) =>
      eventTo(RUN, context.runId, {
        type: 'lease lost',
        leaseId: context.id,
        at: instantOf(event),
        reason: context.why ?? 'lost',
      }),
    ),
    reportOutcome: sendEvent(({ context, event }) =>
      event.type === 'completed'
        ? eventTo(RUN, context.runId, {
            type: `ended ${event.outcome.status}`,
            leaseId: context.id,
            workerId: context.workerId,
            at: event.at,
            outcome: event.outcome,
            retentionHours: event.retentionHours,
            ...(event.pull === undefined ? {} : { pull: event.pull }),
            // Only a cancel request sets `why` on a lease that can still complete.
            ...(context.why === null ? {} : { unwanted: true as const }),
          })
        : [],
    ),
    reportCancelEnforced: sendEvent(({ context, event }) =>
      eventTo(RUN, context.runId, { type: 'cancel enforced', leaseId: context.id, at: instantOf(event) }),
    ),
    end: endActor(),
  },
}).createMachine({
  id: 'lease',
  options: { maxIterations: 100 },
  context: ({ input }) => extend(input, { end: null, why: null }),
  initial: 'offered',
  states: {
    offered: {
      description: 'the lease is on disk; its worker has ten seconds to answer the dispatch',
      entry: 'dispatch',
      on: {
        accepted: { target: 'held', actions: 'reportAccepted' },
        'worker claimed lease': { target: 'held', actions: 'reportAccepted' },
        rejected: { target: 'closed', actions: ['endDeclined', 'reportDeclined'] },
        withdrawn: { target: 'closed', actions: ['endDeclined', 'reportDeclined'] },
        unanswered: { target: 'closed', actions: ['endDeclined', 'reportDeclined', 'fence'] },
        'worker lost': 'unconfirmed',
        'cancel requested': { target: 'closed', actions: ['recordReason', 'endFenced', 'fence'] },
        orphaned: { target: 'closed', actions: 'endDeclined' },
      },
    },
    unconfirmed: {
      description: 'the worker disconnected before it answered; it may have the dispatch or not',
      entry: 'awaitClaim',
      on: {
        accepted: { target: 'held', actions: 'reportAccepted' },
        'worker claimed lease': { target: 'held', actions: 'reportAccepted' },
        'worker denied lease': { target: 'closed', actions: ['endDeclined', 'reportDeclined'] },
        withdrawn: { target: 'closed', actions: ['endDeclined', 'reportDeclined'] },
        'lease expired': { target: 'closed', actions: ['endExpired', 'reportDeclined', 'fence'] },
        'cancel requested': { target: 'closed', actions: ['recordReason', 'endFenced', 'fence'] },
        orphaned: { target: 'closed', actions: 'endDeclined' },
      },
    },
    held: {
      description: 'the worker executes the run and sends frames',
      on: {
        'worker lost': 'adrift',
        'worker denied lease': { target: 'closed', actions: ['endLost', 'reportLost'] },
        completed: { target: 'closed', actions: ['endCompleted', 'reportOutcome', 'acknowledgeCompletion'] },
        'cancel requested': { target: 'cancelling', actions: 'recordReason' },
        'frames failed': { target: 'closed', actions: ['endUnreadable', 'reportLost', 'fence'] },
        orphaned: { target: 'closed', actions: ['endOrphaned', 'fence'] },
      },
    },
    adrift: {
      description: 'the worker is disconnected; it may come back until the lease expires',
      entry: 'awaitReturn',
      on: {
        'worker claimed lease': 'held',
        'worker denied lease': { target: 'closed', actions: ['endLost', 'reportLost'] },
        // The completion waited for the disk while the connection closed.
        completed: { target: 'closed', actions: ['endCompleted', 'reportOutcome', 'acknowledgeCompletion'] },
        'lease expired': { target: 'closed', actions: ['endExpired', 'reportLost', 'fence'] },
        'cancel requested': { target: 'cancelling', actions: 'recordReason' },
        'frames failed': { target: 'closed', actions: ['endUnreadable', 'reportLost', 'fence'] },
        orphaned: { target: 'closed', actions: 'endOrphaned' },
      },
    },
    cancelling: {
      description: 'the worker received a cancel and has fifteen seconds to report the outcome',
      entry: 'sendCancel',
      on: {
        'worker claimed lease': { actions: 'sendCancel' },
        'worker denied lease': { target: 'closed', actions: ['endFenced', 'reportCancelEnforced'] },
        completed: { target: 'closed', actions: ['endCompleted', 'reportOutcome', 'acknowledgeCompletion'] },
        'cancel timed out': { target: 'closed', actions: ['endFenced', 'reportCancelEnforced', 'fence'] },
        'frames failed': { target: 'closed', actions: ['endFenced', 'reportCancelEnforced', 'fence'] },
        orphaned: { target: 'closed', actions: ['endFenced', 'fence'] },
      },
    },
    closed: {
      description: 'the lease has ended; frames with its id have no effect',
      entry: 'end',
    },
  },
})

/** After a restart no worker is connected yet, so every lease waits for its worker. */
const impliedOutputs: NonNullable<ActorKind<LeaseContext>['impliedOutputs']> = (
  key,
  { value, context: lease },
): readonly ImpliedOutput[] => {
  const event = (made: LeaseEvent): ImpliedOutput => eventTo(LEASE, key, made)
  const effect = (made: LeaseEffect): ImpliedOutput => ({ is: 'effect', effect: made })
  // The lease's snapshot outranks the run's: a run with an accepted lease is not queued. A run that knows ignores this.
  const accepted = eventTo(RUN, lease.runId, {
    type: 'accepted',
    leaseId: key,
    workerId: lease.workerId,
    at: lease.grantedAt,
  })
  if (value === 'cancelling')
    return [
      accepted,
      effect({
        type: 'lease.send cancel',
        leaseId: key,
        workerId: lease.workerId,
        reason: lease.why ?? 'cancelled',
      }),
    ]
  if (value === 'adrift')
    return [accepted, effect({ type: 'lease.await worker', leaseId: key, arrived: true })]
  if (value === 'held') return [accepted, event({ type: 'worker lost' })]
  if (value === 'unconfirmed') return [effect({ type: 'lease.await worker', leaseId: key, arrived: false })]
  return [event({ type: 'worker lost' })]
}

export const leaseKind: ActorKind<LeaseContext> = {
  name: LEASE,
  logic: leaseMachine,
  codec: createSnapshotCodec({
    version: 1,
    states: { offered: 'o', unconfirmed: 'u', held: 'h', adrift: 'a', cancelling: 'c', closed: 'x' },
    schema: snapshotShape(LeaseFields),
    lifts: {},
  }),
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    finally: 'closed',
    finalOutputs: (_key, { context }, reason, at) => [
      eventTo(RUN, context.runId, {
        type: 'lease actor failed',
        at: new Date(at).toISOString(),
        reason: `internal error: ${reason}`,
      }),
    ],
  },
  impliedOutputs,
}

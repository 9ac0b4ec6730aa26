/**
 * A lease: one worker's right to execute one run, from the moment it is on disk until it ends, once.
 *
 * Its id is the fencing token: whatever carries it after the end has no effect. Time is kept outside (on a clock that
 * never jumps) and comes in as events; a restart counts anew, which only ever makes a lease live longer.
 */
import { assign, setup } from 'xstate'
import { LeaseFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import type { RunMachineEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind, ImpliedOutput } from '../runtime/actor-kind.ts'
import { createSnapshotCodec } from '../runtime/snapshot-codec.ts'
import { LEASE } from './lease.names.ts'

/** How a lease ended. Only `completed` is acknowledged to whoever repeats its completion. */
export type LeaseEnd = NonNullable<LeaseFields['end']>

/** `termMs`: what it lives without a word of its worker, as promised when it was granted. */
export type LeaseContext = LeaseFields

export interface LeaseInput {
  readonly id: string
  readonly runId: string
  readonly workerId: string
  readonly termMs: number
  readonly grantedAt: string
}

export type LeaseEvent =
  | { readonly type: 'accepted'; readonly at: string }
  | { readonly type: 'rejected'; readonly at: string; readonly reason: string }
  | { readonly type: 'unanswered'; readonly at: string }
  /** The dispatch was not sent after all, and will not be. */
  | { readonly type: 'withdrawn'; readonly at: string; readonly reason: string }
  | { readonly type: 'worker lost' }
  | { readonly type: 'worker claimed lease'; readonly at: string }
  | { readonly type: 'worker denied lease'; readonly at: string }
  | { readonly type: 'lease expired'; readonly at: string }
  | {
      readonly type: 'completed'
      readonly at: string
      readonly outcome: RunOutcome
      readonly retentionHours: number
    }
  | { readonly type: 'cancel requested'; readonly reason: string }
  | { readonly type: 'cancel timed out'; readonly at: string }
  /** What it reports can't be applied, again and again. */
  | { readonly type: 'frames failed'; readonly at: string }
  /** Its run is no more, or belongs to another lease: a record that only a bug or a damaged store can leave. */
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
const runAddress = (context: LeaseContext) => ({ kind: RUN, key: context.runId })

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
    endLost: assign({ end: 'lost' as const, why: 'the worker no longer has it' }),
    endUnreadable: assign({ end: 'lost' as const, why: 'what the worker reported could not be applied' }),
    endOrphaned: assign({ end: 'lost' as const, why: 'its run is no more, or belongs to another lease' }),
    endExpired: assign({ end: 'expired' as const, why: 'the worker did not come back in time' }),
    endFenced: assign(({ context }) => ({
      end: 'fenced' as const,
      why: context.why ?? 'the run was cancelled',
    })),
    reportAccepted: sendEvent(({ context, event }) => ({
      to: runAddress(context),
      event: { type: 'accepted', leaseId: context.id, workerId: context.workerId, at: instantOf(event) },
    })),
    reportDeclined: sendEvent(({ context, event }) => ({
      to: runAddress(context),
      event: { type: 'declined', leaseId: context.id, at: instantOf(event) },
    })),
    reportLost: sendEvent(({ context, event }) => ({
      to: runAddress(context),
      event: { type: 'lease lost', leaseId: context.id, at: instantOf(event), reason: context.why ?? 'lost' },
    })),
    reportOutcome: sendEvent(({ context, event }) =>
      event.type === 'completed'
        ? {
            to: runAddress(context),
            event: {
              type: `ended ${event.outcome.status}`,
              leaseId: context.id,
              workerId: context.workerId,
              at: event.at,
              outcome: event.outcome,
              retentionHours: event.retentionHours,
              // Only a cancel gives a lease that still speaks a reason.
              ...(context.why === null ? {} : { unwanted: true as const }),
            },
          }
        : [],
    ),
    reportCancelEnforced: sendEvent(({ context, event }) => ({
      to: runAddress(context),
      event: { type: 'cancel enforced', leaseId: context.id, at: instantOf(event) },
    })),
    end: endActor(),
  },
}).createMachine({
  id: 'lease',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, end: null, why: null }),
  initial: 'offered',
  states: {
    offered: {
      description: 'on disk, and offered to its worker, which has ten seconds to answer',
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
      description: 'the worker went away before it answered: it may have the dispatch or not',
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
      description: 'the worker executes the run and reports on it',
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
      description: 'the worker is away; it has the rest of the term to come back',
      entry: 'awaitReturn',
      on: {
        'worker claimed lease': 'held',
        'worker denied lease': { target: 'closed', actions: ['endLost', 'reportLost'] },
        // Its last frame waited for the disk while the line went.
        completed: { target: 'closed', actions: ['endCompleted', 'reportOutcome', 'acknowledgeCompletion'] },
        'lease expired': { target: 'closed', actions: ['endExpired', 'reportLost', 'fence'] },
        'cancel requested': { target: 'cancelling', actions: 'recordReason' },
        'frames failed': { target: 'closed', actions: ['endUnreadable', 'reportLost', 'fence'] },
        orphaned: { target: 'closed', actions: 'endOrphaned' },
      },
    },
    cancelling: {
      description: 'the worker was told to stop, and has fifteen seconds to say how it ended',
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
      description: 'over; its id is good for nothing any more',
      entry: 'end',
    },
  },
})

/** After a restart no worker is connected yet, so every lease waits for its own. */
const impliedOutputs: NonNullable<ActorKind['impliedOutputs']> = (
  key,
  { value, context },
): readonly ImpliedOutput[] => {
  const lease = context as LeaseContext
  const event = (made: LeaseEvent): ImpliedOutput => ({ is: 'event', to: { kind: LEASE, key }, event: made })
  const effect = (made: LeaseEffect): ImpliedOutput => ({ is: 'effect', effect: made })
  // It outranks its run's record: what was accepted is not waiting for a worker. A run that knows takes no notice.
  const acceptedEvent: RunMachineEvent = {
    type: 'accepted',
    leaseId: key,
    workerId: lease.workerId,
    at: lease.grantedAt,
  }
  const accepted: ImpliedOutput = { is: 'event', to: runAddress(lease), event: acceptedEvent }
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

export const leaseKind: ActorKind = {
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
    finalOutputs: (_key, last, reason, at) => {
      const { runId } = last.context as LeaseContext
      return [
        {
          is: 'event',
          to: { kind: RUN, key: runId },
          event: {
            type: 'lease actor failed',
            at: new Date(at).toISOString(),
            reason: `internal error: ${reason}`,
          },
        },
      ]
    },
  },
  impliedOutputs,
}

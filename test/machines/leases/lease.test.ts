/** What a lease does, from its offer to its end, one story for each way. */
import { type LeaseEvent, type LeaseInput, leaseMachine } from '../../../actors/leases/lease.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

const T0 = '2026-03-01T08:00:00.000Z'
const input: LeaseInput = { id: 'ls-1', runId: 'run-1', workerId: 'wk-1', termMs: 165_000, grantedAt: T0 }

const accepted: LeaseEvent = { type: 'accepted', at: T0 }
const lost: LeaseEvent = { type: 'worker lost' }
const claims: LeaseEvent = { type: 'worker claims', at: T0 }
const denies: LeaseEvent = { type: 'worker denies', at: T0 }
const late: LeaseEvent = { type: 'time ran out', at: T0 }
const withdrawn: LeaseEvent = { type: 'withdrawn', at: T0, reason: 'the worker is draining' }
const orphaned: LeaseEvent = { type: 'orphaned' }
const wedged: LeaseEvent = { type: 'wedged', at: T0 }
const cancel: LeaseEvent = { type: 'cancel requested', reason: 'cancelled by a person' }
const completed = (status: 'completed' | 'failed' | 'cancelled'): LeaseEvent => ({
  type: 'completed',
  at: T0,
  outcome: { status, costs: [] },
  retentionHours: 24,
})

const stories: readonly Story<LeaseEvent>[] = [
  {
    title: 'a dispatch that is accepted and a run that completes: the completion is acknowledged',
    input,
    events: [accepted, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'a run that failed is told as such',
    input,
    events: [accepted, completed('failed')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended failed, over, end=completed',
    ],
  },
  {
    title: 'a dispatch that is rejected gives the run back',
    input,
    events: [{ type: 'rejected', at: T0, reason: 'no room on the disk' }],
    trail: [
      'start → offered : lease.dispatch',
      'rejected → closed : tell run run-1 declined, over, end=declined, why=no room on the disk',
    ],
  },
  {
    title: 'a lease nobody answers is closed, fenced, and its run given back',
    input,
    events: [{ type: 'unanswered', at: T0 }],
    trail: [
      'start → offered : lease.dispatch',
      'unanswered → closed : lease.fence (no answer to the dispatch), tell run run-1 declined, over, end=declined, why=no answer to the dispatch',
    ],
  },
  {
    title: 'a dispatch that was not sent after all is withdrawn',
    input,
    events: [withdrawn],
    trail: [
      'start → offered : lease.dispatch',
      'withdrawn → closed : tell run run-1 declined, over, end=declined, why=the worker is draining',
    ],
  },
  {
    title: 'a run cancelled before it is accepted is fenced off; the run knows already',
    input,
    events: [cancel],
    trail: [
      'start → offered : lease.dispatch',
      'cancel requested → closed : lease.fence (cancelled by a person), over, end=fenced, why=cancelled by a person',
    ],
  },
  {
    title: 'an offer that belongs to no run is closed',
    input,
    events: [orphaned],
    trail: ['start → offered : lease.dispatch', 'orphaned → closed : over, end=declined'],
  },
  {
    title: 'a worker that went away before it answered, and claims it when it is back, has it',
    input,
    events: [lost, claims, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'worker claims → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'one that does not claim it when it is back never got it',
    input,
    events: [lost, denies],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'worker denies → closed : tell run run-1 declined, over, end=declined',
    ],
  },
  {
    title: 'one that does not come back may have it: waited for, then fenced',
    input,
    events: [lost, late],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'time ran out → closed : lease.fence (the worker did not come back in time), tell run run-1 declined, over, end=expired, why=the worker did not come back in time',
    ],
  },
  {
    title: 'a dispatch that never left because its worker went away is withdrawn',
    input,
    events: [lost, withdrawn],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'withdrawn → closed : tell run run-1 declined, over, end=declined, why=the worker is draining',
    ],
  },
  {
    title: 'cancelled while nobody knows whether it arrived',
    input,
    events: [lost, cancel],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'cancel requested → closed : lease.fence (cancelled by a person), over, end=fenced, why=cancelled by a person',
    ],
  },
  {
    title: 'orphaned while nobody knows whether it arrived',
    input,
    events: [lost, orphaned],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'orphaned → closed : over, end=declined',
    ],
  },
  {
    title: 'a worker that went away and comes back in time goes on',
    input,
    events: [accepted, lost, claims, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'worker claims → held',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'a worker that does not come back in time loses it',
    input,
    events: [accepted, lost, late],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'time ran out → closed : lease.fence (the worker did not come back in time), tell run run-1 lease lost, over, end=expired, why=the worker did not come back in time',
    ],
  },
  {
    title: 'a worker that comes back without it has lost it',
    input,
    events: [accepted, lost, denies],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'worker denies → closed : tell run run-1 lease lost, over, end=lost, why=the worker no longer has it',
    ],
  },
  {
    title: 'a worker that is there and has it no more has lost it',
    input,
    events: [accepted, denies],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker denies → closed : tell run run-1 lease lost, over, end=lost, why=the worker no longer has it',
    ],
  },
  {
    title: 'what its worker reports can never be applied: it is lost',
    input,
    events: [accepted, wedged],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'wedged → closed : lease.fence (what the worker reported could not be applied), tell run run-1 lease lost, over, end=lost, why=what the worker reported could not be applied',
    ],
  },
  {
    title: 'the same while its worker is away',
    input,
    events: [accepted, lost, wedged],
    ends: 'wedged → closed : lease.fence (what the worker reported could not be applied), tell run run-1 lease lost, over, end=lost, why=what the worker reported could not be applied',
  },
  {
    title: 'the same while it is being cancelled',
    input,
    events: [accepted, cancel, wedged],
    ends: 'wedged → closed : lease.fence (cancelled by a person), tell run run-1 cancel enforced, over, end=fenced',
  },
  {
    title: 'orphaned in the hands of its worker, it is fenced',
    input,
    events: [accepted, orphaned],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'orphaned → closed : lease.fence (its run is no more, or belongs to another lease), over, end=lost, why=its run is no more, or belongs to another lease',
    ],
  },
  {
    title: 'a worker that holds it has accepted it, even if the word of it was lost',
    input,
    events: [claims, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'worker claims → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'a worker that reports on it has accepted it, even if nobody knew whether it arrived',
    input,
    events: [lost, accepted, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'worker lost → unsure : lease.await worker',
      'accepted → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'a run that completed while its worker was away is believed',
    input,
    events: [accepted, lost, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'orphaned while its worker is away',
    input,
    events: [accepted, lost, orphaned],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'orphaned → closed : over, end=lost, why=its run is no more, or belongs to another lease',
    ],
  },
  {
    title: 'cancelled, and the worker says how it ended',
    input,
    events: [accepted, cancel, completed('cancelled')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended cancelled, over, end=completed',
    ],
  },
  {
    title: 'cancelled, and the worker says nothing',
    input,
    events: [accepted, cancel, { type: 'cancel timed out', at: T0 }],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'cancel timed out → closed : lease.fence (cancelled by a person), tell run run-1 cancel enforced, over, end=fenced',
    ],
  },
  {
    title: 'cancelled while the worker is away: it is told again when it is back',
    input,
    events: [accepted, lost, cancel, claims, completed('cancelled')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'worker lost → adrift : lease.await worker',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'worker claims → cancelling : lease.send cancel (cancelled by a person)',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended cancelled, over, end=completed',
    ],
  },
  {
    title: 'cancelled, and the worker has it no more',
    input,
    events: [accepted, cancel, denies],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'worker denies → closed : tell run run-1 cancel enforced, over, end=fenced',
    ],
  },
  {
    title: 'cancelled, and then orphaned',
    input,
    events: [accepted, cancel, orphaned],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'orphaned → closed : lease.fence (cancelled by a person), over, end=fenced',
    ],
  },
  {
    title: 'a worker that completed in spite of the cancel is believed',
    input,
    events: [accepted, cancel, completed('completed')],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'cancel requested → cancelling : lease.send cancel (cancelled by a person), why=cancelled by a person',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
    ],
  },
  {
    title: 'nothing that comes after the end has any effect',
    input,
    events: [accepted, completed('completed'), completed('failed'), lost, late, cancel],
    trail: [
      'start → offered : lease.dispatch',
      'accepted → held : tell run run-1 accepted',
      'completed → closed : lease.acknowledge completion, tell run run-1 ended completed, over, end=completed',
      'completed → closed',
      'worker lost → closed',
      'time ran out → closed',
      'cancel requested → closed',
    ],
  },
]

tell(leaseMachine, stories)

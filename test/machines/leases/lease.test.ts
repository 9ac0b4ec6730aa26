/** Trails of a lease from its offer to each of its ends. */
import { type LeaseEvent, type LeaseInput, leaseMachine } from '../../../actors/leases/lease.machine.ts'
import { LAST_LINE, trailTests } from '../trail-tests.ts'

const T0 = '2026-03-01T08:00:00.000Z'
const input: LeaseInput = { id: 'ls-1', runId: 'run-1', workerId: 'wk-1', termMs: 165_000, grantedAt: T0 }

const accepted: LeaseEvent = { type: 'accepted', at: T0 }
const lost: LeaseEvent = { type: 'worker lost' }
const claims: LeaseEvent = { type: 'worker claimed lease', at: T0 }
const denies: LeaseEvent = { type: 'worker denied lease', at: T0 }
const late: LeaseEvent = { type: 'lease expired', at: T0 }
const withdrawn: LeaseEvent = { type: 'withdrawn', at: T0, reason: 'the worker is draining' }
const orphaned: LeaseEvent = { type: 'orphaned' }
const framesFailed: LeaseEvent = { type: 'frames failed', at: T0 }
const cancel: LeaseEvent = { type: 'cancel requested', reason: 'cancelled by a person' }
const completed = (status: 'completed' | 'failed' | 'cancelled'): LeaseEvent => ({
  type: 'completed',
  at: T0,
  outcome: { status, costs: [] },
  retentionHours: 24,
})

trailTests<LeaseEvent>(leaseMachine, input, [
  [
    'a dispatch that is accepted and a run that completes: the completion is acknowledged',
    [accepted, completed('completed')],
  ],
  [
    'a failed run ends its lease as completed, and the run receives the failure',
    [accepted, completed('failed')],
  ],
  [
    'a rejected dispatch returns the run to the queue',
    [{ type: 'rejected', at: T0, reason: 'no room on the disk' }],
  ],
  [
    'an unanswered lease is closed and fenced, and its run returns to the queue',
    [{ type: 'unanswered', at: T0 }],
  ],
  ['a lease whose dispatch was not sent is withdrawn', [withdrawn]],
  ['a lease cancelled before it is accepted is fenced; the run knows already', [cancel]],
  ['an offered lease without a run is closed', [orphaned]],
  [
    'a worker that disconnected before it answered and claims the lease on its return holds it',
    [lost, claims, completed('completed')],
  ],
  ['a worker that does not claim an unconfirmed lease on its return never received it', [lost, denies]],
  ['an unconfirmed lease of a worker that does not return expires and is fenced', [lost, late]],
  ['a dispatch that was not sent because its worker disconnected is withdrawn', [lost, withdrawn]],
  ['an unconfirmed lease is cancelled', [lost, cancel]],
  ['an unconfirmed lease is orphaned', [lost, orphaned]],
  [
    'a worker that disconnected and returns in time continues',
    [accepted, lost, claims, completed('completed')],
  ],
  ['a worker that does not return in time loses its lease', [accepted, lost, late]],
  ['a worker that returns without its lease has lost it', [accepted, lost, denies]],
  ['a connected worker that denies its lease has lost it', [accepted, denies]],
  ['a held lease whose frames can’t be applied is lost', [accepted, framesFailed]],
  ['an adrift lease whose frames can’t be applied is lost', [accepted, lost, framesFailed], LAST_LINE],
  [
    'a lease in cancellation whose frames can’t be applied is fenced',
    [accepted, cancel, framesFailed],
    LAST_LINE,
  ],
  ['a held lease that is orphaned is fenced', [accepted, orphaned]],
  [
    'a worker that claims an offered lease has accepted it, even if `dispatch-accepted` was lost',
    [claims, completed('completed')],
  ],
  ['a worker that reports on an unconfirmed lease has accepted it', [lost, accepted, completed('completed')]],
  [
    'a completion that arrives while the worker is disconnected counts',
    [accepted, lost, completed('completed')],
  ],
  ['an adrift lease is orphaned', [accepted, lost, orphaned]],
  [
    'a cancelled lease ends with the outcome that its worker reports',
    [accepted, cancel, completed('cancelled')],
  ],
  [
    'a cancelled lease whose worker does not answer is fenced',
    [accepted, cancel, { type: 'cancel timed out', at: T0 }],
  ],
  [
    'a lease cancelled while its worker is disconnected sends the cancel again on its return',
    [accepted, lost, cancel, claims, completed('cancelled')],
  ],
  ['a cancelled lease that its worker denies ends', [accepted, cancel, denies]],
  ['a cancelled lease is orphaned', [accepted, cancel, orphaned]],
  ['a completion after a cancel counts', [accepted, cancel, completed('completed')]],
  [
    'no event after the end has an effect',
    [accepted, completed('completed'), completed('failed'), lost, late, cancel],
  ],
])

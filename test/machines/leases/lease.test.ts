/** Trails of a lease from its offer to each of its ends. */
import { type LeaseEvent, type LeaseInput, leaseMachine } from '../../../actors/leases/lease.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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

const stories: readonly Story<LeaseEvent>[] = [
  {
    title: 'a dispatch that is accepted and a run that completes: the completion is acknowledged',
    input,
    events: [accepted, completed('completed')],
  },
  {
    title: 'a failed run ends its lease as completed, and the run receives the failure',
    input,
    events: [accepted, completed('failed')],
  },
  {
    title: 'a rejected dispatch returns the run to the queue',
    input,
    events: [{ type: 'rejected', at: T0, reason: 'no room on the disk' }],
  },
  {
    title: 'an unanswered lease is closed and fenced, and its run returns to the queue',
    input,
    events: [{ type: 'unanswered', at: T0 }],
  },
  {
    title: 'a lease whose dispatch was not sent is withdrawn',
    input,
    events: [withdrawn],
  },
  {
    title: 'a lease cancelled before it is accepted is fenced; the run knows already',
    input,
    events: [cancel],
  },
  {
    title: 'an offered lease without a run is closed',
    input,
    events: [orphaned],
  },
  {
    title: 'a worker that disconnected before it answered and claims the lease on its return holds it',
    input,
    events: [lost, claims, completed('completed')],
  },
  {
    title: 'a worker that does not claim an unconfirmed lease on its return never received it',
    input,
    events: [lost, denies],
  },
  {
    title: 'an unconfirmed lease of a worker that does not return expires and is fenced',
    input,
    events: [lost, late],
  },
  {
    title: 'a dispatch that was not sent because its worker disconnected is withdrawn',
    input,
    events: [lost, withdrawn],
  },
  {
    title: 'an unconfirmed lease is cancelled',
    input,
    events: [lost, cancel],
  },
  {
    title: 'an unconfirmed lease is orphaned',
    input,
    events: [lost, orphaned],
  },
  {
    title: 'a worker that disconnected and returns in time continues',
    input,
    events: [accepted, lost, claims, completed('completed')],
  },
  {
    title: 'a worker that does not return in time loses its lease',
    input,
    events: [accepted, lost, late],
  },
  {
    title: 'a worker that returns without its lease has lost it',
    input,
    events: [accepted, lost, denies],
  },
  {
    title: 'a connected worker that denies its lease has lost it',
    input,
    events: [accepted, denies],
  },
  {
    title: 'a held lease whose frames can’t be applied is lost',
    input,
    events: [accepted, framesFailed],
  },
  {
    title: 'an adrift lease whose frames can’t be applied is lost',
    input,
    events: [accepted, lost, framesFailed],
    onlyLastLine: true,
  },
  {
    title: 'a lease in cancellation whose frames can’t be applied is fenced',
    input,
    events: [accepted, cancel, framesFailed],
    onlyLastLine: true,
  },
  {
    title: 'a held lease that is orphaned is fenced',
    input,
    events: [accepted, orphaned],
  },
  {
    title: 'a worker that claims an offered lease has accepted it, even if `dispatch-accepted` was lost',
    input,
    events: [claims, completed('completed')],
  },
  {
    title: 'a worker that reports on an unconfirmed lease has accepted it',
    input,
    events: [lost, accepted, completed('completed')],
  },
  {
    title: 'a completion that arrives while the worker is disconnected counts',
    input,
    events: [accepted, lost, completed('completed')],
  },
  {
    title: 'an adrift lease is orphaned',
    input,
    events: [accepted, lost, orphaned],
  },
  {
    title: 'a cancelled lease ends with the outcome that its worker reports',
    input,
    events: [accepted, cancel, completed('cancelled')],
  },
  {
    title: 'a cancelled lease whose worker does not answer is fenced',
    input,
    events: [accepted, cancel, { type: 'cancel timed out', at: T0 }],
  },
  {
    title: 'a lease cancelled while its worker is disconnected sends the cancel again on its return',
    input,
    events: [accepted, lost, cancel, claims, completed('cancelled')],
  },
  {
    title: 'a cancelled lease that its worker denies ends',
    input,
    events: [accepted, cancel, denies],
  },
  {
    title: 'a cancelled lease is orphaned',
    input,
    events: [accepted, cancel, orphaned],
  },
  {
    title: 'a completion after a cancel counts',
    input,
    events: [accepted, cancel, completed('completed')],
  },
  {
    title: 'no event after the end has an effect',
    input,
    events: [accepted, completed('completed'), completed('failed'), lost, late, cancel],
  },
]

testTrails(leaseMachine, stories)

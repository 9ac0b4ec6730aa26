/** What a lease does, from its offer to its end, one story for each way. */
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
    title: 'a run that failed is told as such',
    input,
    events: [accepted, completed('failed')],
  },
  {
    title: 'a dispatch that is rejected gives the run back',
    input,
    events: [{ type: 'rejected', at: T0, reason: 'no room on the disk' }],
  },
  {
    title: 'a lease nobody answers is closed, fenced, and its run given back',
    input,
    events: [{ type: 'unanswered', at: T0 }],
  },
  {
    title: 'a dispatch that was not sent after all is withdrawn',
    input,
    events: [withdrawn],
  },
  {
    title: 'a run cancelled before it is accepted is fenced off; the run knows already',
    input,
    events: [cancel],
  },
  {
    title: 'an offer that belongs to no run is closed',
    input,
    events: [orphaned],
  },
  {
    title: 'a worker that went away before it answered, and claims it when it is back, has it',
    input,
    events: [lost, claims, completed('completed')],
  },
  {
    title: 'one that does not claim it when it is back never got it',
    input,
    events: [lost, denies],
  },
  {
    title: 'one that does not come back may have it: waited for, then fenced',
    input,
    events: [lost, late],
  },
  {
    title: 'a dispatch that never left because its worker went away is withdrawn',
    input,
    events: [lost, withdrawn],
  },
  {
    title: 'cancelled while nobody knows whether it arrived',
    input,
    events: [lost, cancel],
  },
  {
    title: 'orphaned while nobody knows whether it arrived',
    input,
    events: [lost, orphaned],
  },
  {
    title: 'a worker that went away and comes back in time goes on',
    input,
    events: [accepted, lost, claims, completed('completed')],
  },
  {
    title: 'a worker that does not come back in time loses it',
    input,
    events: [accepted, lost, late],
  },
  {
    title: 'a worker that comes back without it has lost it',
    input,
    events: [accepted, lost, denies],
  },
  {
    title: 'a worker that is there and has it no more has lost it',
    input,
    events: [accepted, denies],
  },
  {
    title: 'what its worker reports can never be applied: it is lost',
    input,
    events: [accepted, framesFailed],
  },
  {
    title: 'the same while its worker is away',
    input,
    events: [accepted, lost, framesFailed],
    onlyLastLine: true,
  },
  {
    title: 'the same while it is being cancelled',
    input,
    events: [accepted, cancel, framesFailed],
    onlyLastLine: true,
  },
  {
    title: 'orphaned in the hands of its worker, it is fenced',
    input,
    events: [accepted, orphaned],
  },
  {
    title: 'a worker that holds it has accepted it, even if the word of it was lost',
    input,
    events: [claims, completed('completed')],
  },
  {
    title: 'a worker that reports on it has accepted it, even if nobody knew whether it arrived',
    input,
    events: [lost, accepted, completed('completed')],
  },
  {
    title: 'a run that completed while its worker was away is believed',
    input,
    events: [accepted, lost, completed('completed')],
  },
  {
    title: 'orphaned while its worker is away',
    input,
    events: [accepted, lost, orphaned],
  },
  {
    title: 'cancelled, and the worker says how it ended',
    input,
    events: [accepted, cancel, completed('cancelled')],
  },
  {
    title: 'cancelled, and the worker says nothing',
    input,
    events: [accepted, cancel, { type: 'cancel timed out', at: T0 }],
  },
  {
    title: 'cancelled while the worker is away: it is told again when it is back',
    input,
    events: [accepted, lost, cancel, claims, completed('cancelled')],
  },
  {
    title: 'cancelled, and the worker has it no more',
    input,
    events: [accepted, cancel, denies],
  },
  {
    title: 'cancelled, and then orphaned',
    input,
    events: [accepted, cancel, orphaned],
  },
  {
    title: 'a worker that completed in spite of the cancel is believed',
    input,
    events: [accepted, cancel, completed('completed')],
  },
  {
    title: 'nothing that comes after the end has any effect',
    input,
    events: [accepted, completed('completed'), completed('failed'), lost, late, cancel],
  },
]

testTrails(leaseMachine, stories)

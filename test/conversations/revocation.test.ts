/** Draining, enabling and revoking, as the worker hears them: rule 11 of the worker channel. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, enroll, offered, rejoin, ticket, Work, yarn } from './host-conversation.ts'

test('`worker-state` is pushed immediately when an operator drains or re-enables the worker', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  y.fresh()
  await y.done(y.desk.drainWorker(workerId))
  await wire.beat()
  await y.done(y.desk.enableWorker(workerId))
  expectRecorded(y.said)
})

test('draining a draining worker changes nothing', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  await y.done(y.desk.drainWorker(workerId))
  await y.done(y.desk.drainWorker(workerId))
  expect(wire.count('worker-state')).toBe(1)
})

test('a drain is persisted across reconnects', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await y.done(y.desk.drainWorker(worker.workerId))
  await worker.wire.drop()
  expect((await back(y, worker)).last('registered').state).toBe('draining')
})

test('a worker that is drained finishes its runs and gets no new ones', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await y.done(y.desk.drainWorker(worker.workerId))
  y.tracker.put(ticket('ENG-2'))
  await wire.say(work.running(), work.complete())
  expectRecorded(y.said)
  expect(y.run(runId).status).toBe('completed')
  expect(y.runOf('ENG-2').queueReason).toBe('all workers are draining')
  await y.done(y.desk.enableWorker(worker.workerId))
  expectRecorded(y.said.slice(4))
})

test('`revoked` is sent, then the socket closes', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y)
  y.fresh()
  await y.done(y.desk.revokeWorker(workerId))
  expectRecorded(y.said)
  expect(y.desk.fleet().workers).toEqual([])
})

test('after a revocation its credential is good for nothing', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await y.done(y.desk.revokeWorker(worker.workerId))
  expect(y.desk.admitWorker(worker.workerId, worker.credential).ok).toBe(false)
  expect((await back(y, worker)).last('rejected').code).toBe('unauthorized')
})

test('a worker is told that it is revoked only when that is on disk', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y)
  y.fresh()
  y.beforeLanding('worker', () => y.fill())
  const answer = y.desk.revokeWorker(workerId)
  await y.settle()
  await y.drain()
  expect((await answer).ok).toBe(true)
  expectRecorded(y.said)
})

test('after a revocation no frame of the worker is applied', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  const answer = y.desk.revokeWorker(worker.workerId)
  await wire.say(work.running(), work.complete())
  await y.done(answer)
  expect(y.run(runId).status).toBe('preparing')
})

test('the leases of a revoked worker meet their own deadline before their runs are queued again', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  await enroll(y, 'other')
  y.fresh()
  await y.done(y.desk.revokeWorker(worker.workerId))
  await y.pass(44)
  expect(y.desk.placement(runId)).toMatchObject({ ok: true, value: { worker: worker.workerId } })
  await y.pass(120)
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(1)
  expect(y.run(runId)).toMatchObject({
    status: 'queued',
    queueReason: expect.stringMatching(/^interrupted: the worker did not come back in time/),
  })
})

test('a dispatch that was not answered when its worker was revoked is not given to another one before its deadline', async () => {
  const y = await yarn()
  const { worker, runId } = await offered(y)
  const other = await enroll(y, 'other')
  await y.done(y.desk.revokeWorker(worker.workerId))
  await y.beating(219, [other.wire])
  expect(other.wire.has('dispatch')).toBe(false)
  await y.beating(2, [other.wire])
  expect(other.wire.last('dispatch').lease.runId).toBe(runId)
})

test('a revocation survives a restart, and so do the leases of the revoked', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  await y.done(y.desk.revokeWorker(worker.workerId))
  await y.crash()
  const wire = y.connect()
  await wire.say(rejoin(worker, [work.holding]))
  expect(wire.last('rejected').code).toBe('unauthorized')
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(220)
  expect(y.run(runId).status).toBe('queued')
})

test('a worker that enrolls anew after its revocation is another worker', async () => {
  const y = await yarn()
  const { worker, work } = await busy(y)
  await y.done(y.desk.revokeWorker(worker.workerId))
  const again = await enroll(y)
  expect(again.workerId).not.toBe(worker.workerId)
  y.fresh()
  await again.wire.say(work.running())
  expectRecorded(y.said)
  expect(y.run(work.runId).status).toBe('preparing')
})

test('a lease of another worker is not this one’s to claim or to report on', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const thief = await enroll(y, 'thief')
  y.fresh()
  await thief.wire.beat(work)
  await thief.wire.say(work.running(), work.complete(), work.accept(), work.reject('busy: not mine'))
  expectRecorded(y.said)
  expect(y.run(runId).status).toBe('preparing')
  await wire.say(new Work(wire.last('dispatch')).running())
  expect(y.run(runId).status).toBe('running')
})

test('a run that a revoked worker may still be executing can be cancelled: after 15 s it is', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  await y.done(y.desk.revokeWorker(worker.workerId))
  await y.done(y.desk.cancelRun(runId))
  await y.pass(14)
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(1)
  expect(y.run(runId).status).toBe('cancelled')
})

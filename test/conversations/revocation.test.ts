/** Draining, enabling and revoking, as the worker sees them: rule 11 of the worker channel. */
import { expect, test } from '@jest/globals'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  enroll,
  offerRun,
  reconnect,
  registerWithCredential,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

test('`worker-state` is pushed immediately when an operator drains or re-enables the worker', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  host.clearTranscript()
  await host.succeeded(host.hostApi.drainWorker(workerId))
  await connection.sendHeartbeat()
  await host.succeeded(host.hostApi.enableWorker(workerId))
  expectRecorded(host.transcript)
})

test('draining a draining worker changes nothing', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  await host.succeeded(host.hostApi.drainWorker(workerId))
  await host.succeeded(host.hostApi.drainWorker(workerId))
  expect(connection.countReceived('worker-state')).toBe(1)
})

test('a drain is persisted across reconnects', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  await worker.connection.drop()
  expect((await reconnect(host, worker)).lastReceived('registered').state).toBe('draining')
})

test('a worker that is drained finishes its runs and gets no new ones', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  host.tracker.put(ticket('ENG-2'))
  await connection.send(work.running(), work.complete())
  expectRecorded(host.transcript)
  expect(host.run(runId).status).toBe('completed')
  expect(host.runOf('ENG-2').queueReason).toBe(FLEET_REASONS.draining)
  await host.succeeded(host.hostApi.enableWorker(worker.workerId))
  expectRecorded(host.transcript.slice(4))
})

test('`revoked` is sent, then the socket closes', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  host.clearTranscript()
  await host.succeeded(host.hostApi.revokeWorker(workerId))
  expectRecorded(host.transcript)
  expect(host.hostApi.fleet().workers).toEqual([])
})

test('after a revocation the credential is invalid', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  expect(host.hostApi.admitWorker(worker.workerId, worker.credential).ok).toBe(false)
  expect((await reconnect(host, worker)).lastReceived('rejected').code).toBe('unauthorized')
})

test('a worker receives `revoked` only when the revocation is on disk', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  host.clearTranscript()
  host.beforeCommit('worker', () => host.fillDisk())
  const answer = host.hostApi.revokeWorker(workerId)
  await host.settle()
  await host.freeDisk()
  expect((await answer).ok).toBe(true)
  expectRecorded(host.transcript)
})

test('after a revocation no frame of the worker is applied', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  const answer = host.hostApi.revokeWorker(worker.workerId)
  await connection.send(work.running(), work.complete())
  await host.succeeded(answer)
  expect(host.run(runId).status).toBe('preparing')
})

test('the leases of a revoked worker meet their own deadline before their runs are queued again', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  await enroll(host, 'other')
  host.clearTranscript()
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.advance(44)
  expect(host.hostApi.placement(runId)).toMatchObject({ ok: true, value: { worker: worker.workerId } })
  await host.advance(120)
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(1)
  expect(host.run(runId)).toMatchObject({
    status: 'queued',
    queueReason: expect.stringMatching(/^interrupted: the worker did not come back in time/),
  })
})

test('a dispatch that was not answered when its worker was revoked is not given to another one before its deadline', async () => {
  const host = await startHost()
  const { worker, runId } = await offerRun(host)
  const second = await enroll(host, 'other')
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.advanceWithHeartbeats(219, [second.connection])
  expect(second.connection.hasReceived('dispatch')).toBe(false)
  await host.advanceWithHeartbeats(2, [second.connection])
  expect(second.connection.lastReceived('dispatch').lease.runId).toBe(runId)
})

test('a revocation survives a restart, and so do the leases of the revoked', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.crash()
  const connection = host.connect()
  await connection.send(registerWithCredential(worker, [work.holding]))
  expect(connection.lastReceived('rejected').code).toBe('unauthorized')
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(220)
  expect(host.run(runId).status).toBe('queued')
})

test('a worker that enrolls again after its revocation is another worker', async () => {
  const host = await startHost()
  const { worker, work } = await acceptRun(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  const again = await enroll(host)
  expect(again.workerId).not.toBe(worker.workerId)
  host.clearTranscript()
  await again.connection.send(work.running())
  expectRecorded(host.transcript)
  expect(host.run(work.runId).status).toBe('preparing')
})

test('a worker cannot claim or report on a lease of another worker', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const thief = await enroll(host, 'thief')
  host.clearTranscript()
  await thief.connection.sendHeartbeat(work)
  await thief.connection.send(work.running(), work.complete(), work.accept(), work.reject('busy: not mine'))
  expectRecorded(host.transcript)
  expect(host.run(runId).status).toBe('preparing')
  await connection.send(new Work(connection.lastReceived('dispatch')).running())
  expect(host.run(runId).status).toBe('running')
})

test('a run that a revoked worker may still be executing can be cancelled: after 15 s it is', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(14)
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(1)
  expect(host.run(runId).status).toBe('cancelled')
})

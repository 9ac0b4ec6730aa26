/** A disconnected worker: rules 3, 7 and 9 of the worker channel, and the arithmetic of a lease's deadline. */
import { expect, test } from '@jest/globals'
import { CONNECTION_SILENT } from '../../actors/workers/connection.machine.ts'
import { yes } from '../../core/result.ts'
import { runMarker } from '../../core/run/run-pull.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  config,
  configWith,
  enroll,
  HostConversation,
  heartbeat,
  offerRun,
  reconnect,
  registerWithCredential,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

/** A host with a code host, on which a run can open its pull request. */
async function startWithCodeHost() {
  const host = new HostConversation(config)
  const codeHost = new ManualPullRequests()
  host.overrides = { pulls: () => yes(codeHost) }
  await host.start()
  const openPull = ({ id, runId }: Work): string => {
    const url = manualPullUrl('owner/name', 7)
    codeHost.pulls.set(url, 'open')
    codeHost.origins.set(url, { body: runMarker({ runId, leaseId: id }) })
    return url
  }
  return { host, openPull }
}

test.each([
  ['was taken over', { takenOver: true as const }],
  ['broke', {}],
])('a host whose data directory %s answers no frame and grants no lease', async (why, how) => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.store.database.breakDown(why, how)
  host.clearTranscript()
  await connection.sendHeartbeat(work)
  await host.advance(60)
  expect(host.transcript.filter((line) => line.startsWith('host →'))).toEqual([])
})

test('silence longer than 45 s drops the connection', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  host.clearTranscript()
  await host.advance(44)
  await host.advance(1)
  expect(host.transcript).toEqual(['44 s pass', '1 s pass', 'host ✕ worker'])
  expect(connection.closed?.reason).toBe(CONNECTION_SILENT)
  expect(host.hostApi.fleet().workers[0]?.connection).toBe('offline')
})

test('a heartbeat every 15 s keeps the connection', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await host.advanceWithHeartbeats(600, [connection, work])
  expect(connection.closed).toBeUndefined()
  expect(host.run(runId).status).toBe('preparing')
})

test('any frame is a sign of life', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  for (let at = 0; at < 5; at++) {
    await host.advance(40)
    await connection.send(work.event())
  }
  expect(connection.closed).toBeUndefined()
})

test('fleet.heartbeatTimeoutSeconds and fleet.reconnectGraceSeconds are configured', async () => {
  const host = await startHost(
    configWith({ fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 40 } }),
  )
  const { connection, runId } = await acceptRun(host)
  expect(connection.lastReceived('dispatch').lease.remainingMs).toBe(60_000)
  await host.advance(20)
  expect(connection.closed).toBeDefined()
  await host.advance(39)
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(1)
  expect(host.run(runId).status).toBe('queued')
})

test('a dispatch and each lease-ack carry the lease’s remaining time, and the latter echoes the heartbeat', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  expect(connection.lastReceived('dispatch').lease).toMatchObject({
    remainingMs: 165_000,
    expiresAt: '2026-01-01T00:02:46.000Z',
  })
  await host.advance(10)
  const beat = heartbeat(host, work)
  await connection.send(beat)
  expect(connection.lastReceived('heartbeat-ack')).toEqual({
    type: 'heartbeat-ack',
    state: 'active',
    echo: beat.sentAt,
    clock: expect.any(Number),
  })
  expect(connection.lastReceived('lease-ack')).toEqual({
    type: 'lease-ack',
    echo: beat.sentAt,
    leases: [{ leaseId: work.id, seq: 0, expiresAt: '2026-01-01T00:02:56.000Z', remainingMs: 165_000 }],
  })
})

test('the wall clock’s jumps neither lengthen nor shorten a lease', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  host.clock.jumpWallClock(-86_400_000)
  await connection.drop()
  await host.advance(164)
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(1)
  expect(host.run(runId).status).toBe('queued')
  expect(work.holding.lastSeq).toBe(0)
})

test.each([
  ['breaks', 0],
  ['falls silent', 1],
])(
  'a worker whose connection %s has 45 s and 120 s from the last contact to come back',
  async (_, silent) => {
    const host = await startHost()
    const { worker, connection, work, runId } = await acceptRun(host)
    await host.advance(30)
    await connection.send(work.running())
    if (silent === 0) await host.advance(10)
    if (silent === 0) await connection.drop()
    await host.advance(silent === 0 ? 154 : 164)
    expect(host.run(runId).status).toBe('running')
    host.clearTranscript()
    const again = await reconnect(host, worker, work)
    await again.send(work.complete())
    expectRecorded(host.transcript)
  },
)

test('a worker that never returns loses the lease 165 s after its last contact, and the run is queued again', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running())
  await host.advance(10)
  await connection.drop()
  await host.advance(154)
  expect(host.run(runId).status).toBe('running')
  await host.advance(1)
  expect(host.run(runId)).toMatchObject({
    status: 'queued',
    queueReason: expect.stringMatching(/^interrupted: the worker did not come back in time/),
  })
  expect(host.run(runId)).not.toHaveProperty('startedAt')
})

test('an expired lease queues its run exactly once', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.advance(2000)
  const connection = await reconnect(host, { ...worker, concurrency: 1 }, work)
  await connection.sendHeartbeat(work)
  const statuses = (await host.events(runId)).filter((line) => line.startsWith('status'))
  expect(statuses).toEqual(['status queued', 'status preparing', 'status queued'])
  expect(host.allRuns()).toHaveLength(1)
})

test('a reconnecting worker that claims an expired lease receives `lease-lost`, and its reports have no effect', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.advance(165)
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  host.clearTranscript()
  const connection = await reconnect(host, worker, work)
  await connection.send(work.running(), work.event(), work.complete())
  await connection.sendHeartbeat(work)
  expectRecorded(host.transcript)
  expect(connection.closed).toBeUndefined()
  expect(host.run(runId).status).toBe('queued')
})

test('on another connection the worker receives `lease-lost` again', async () => {
  const host = await startHost()
  const { worker, work } = await acceptRun(host)
  await host.advance(165)
  const first = await reconnect(host, worker, work)
  const second = await reconnect(host, worker, work)
  expect([first.countReceived('lease-lost'), second.countReceived('lease-lost')]).toEqual([1, 1])
})

test('a run interrupted 3 times in a row fails', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  for (let times = 2; times <= 3; times++) {
    await host.advance(165)
    expect(host.run(runId).status).toBe('queued')
    const connection = await reconnect(host, worker)
    await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  }
  await host.advance(165)
  expect(host.run(runId)).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/^interrupted 3 times in a row, .*worker/),
  })
  await reconnect(host, worker)
  expect(host.run(runId).status).toBe('failed')
})

test('an unanswered dispatch is no interruption', async () => {
  const host = await startHost()
  const { connection, runId } = await offerRun(host)
  for (let times = 0; times < 5; times++) await host.advanceWithHeartbeats(41, [connection])
  expect(connection.countReceived('dispatch')).toBeGreaterThan(3)
  expect(host.run(runId).status).toBe('queued')
  expect(host.run(runId).queueReason ?? '').not.toContain('interrupted')
})

test('a retry resets the count of interruptions', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  for (let times = 2; times <= 3; times++) {
    await host.advance(165)
    const connection = await reconnect(host, worker)
    await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  }
  await host.advance(165)
  await host.succeeded(host.hostApi.retryRun(runId))
  const connection = await reconnect(host, worker)
  await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  await host.advance(165)
  expect(host.run(runId).status).toBe('queued')
})

test('lease lost, the worker had already opened a pull request: completed, result adopted from it', async () => {
  const { host, openPull } = await startWithCodeHost()
  const { connection, work, runId } = await acceptRun(host)
  const prUrl = openPull(work)
  await connection.send(work.running(), work.patch({ prUrl, prState: 'open', status: 'finalizing' }))
  await host.advance(165)
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    prUrl,
    prState: 'open',
    result: { prUrl, artifacts: [] },
    finishedAt: '2026-01-01T00:02:45.000Z',
  })
})

test('after an adoption the reconnecting worker receives `lease-lost`', async () => {
  const { host, openPull } = await startWithCodeHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.patch({ prUrl: openPull(work) }))
  await host.advance(165)
  const again = await reconnect(host, worker, work)
  await again.send(work.complete({ status: 'failed', error: 'too late' }))
  expect(again.lastReceived('lease-lost').leaseId).toBe(work.id)
  expect(again.hasReceived('run-complete-ack')).toBe(false)
  expect(host.run(runId).status).toBe('completed')
})

test('lease lost, no pull request known: costs and an earlier pull request’s address are kept', async () => {
  const host = await startHost()
  const { connection, work, worker, runId } = await acceptRun(host)
  const prUrl = 'https://example.com/owner/name/pull/7'
  await connection.send(work.complete({ status: 'failed', error: 'no luck', prUrl }))
  await host.succeeded(host.hostApi.retryRun(runId))
  const second = new Work(connection.lastReceived('dispatch'))
  await connection.send(second.accept())
  await host.advance(165)
  expect(host.run(runId)).toMatchObject({ status: 'queued', prUrl })
  expect(worker.workerId).toBe(host.run(runId).sandbox.workerId)
})

test.each([
  ['beats', 'heartbeat'],
  ['registers', 'register'],
])(
  'an online worker that %s without naming a lease it had accepted: that lease is lost at once',
  async (_, how) => {
    const host = await startHost()
    const { worker, connection, work, runId } = await acceptRun(host)
    await connection.send(work.running())
    await host.succeeded(host.hostApi.drainWorker(worker.workerId))
    host.clearTranscript()
    if (how === 'heartbeat') await connection.sendHeartbeat()
    else await reconnect(host, worker)
    expect(host.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: expect.stringMatching(/^interrupted: its worker ended or gave it up/),
    })
    expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
  },
)

test('a heartbeat that crosses a dispatch does not name its lease, and the lease stays', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  await connection.sendHeartbeat()
  await connection.send(work.accept())
  expect(host.run(runId).status).toBe('preparing')
  expect(connection.countReceived('dispatch')).toBe(1)
})

test('a lease is acknowledged from its acceptance on', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.sendHeartbeat()
  expect(connection.acknowledged(work)).toBeUndefined()
  await connection.send(work.accept())
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(0)
})

test('a worker that reconnects holding its lease continues it', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), work.event('before'))
  await connection.drop()
  await host.advance(60)
  host.clearTranscript()
  const again = await reconnect(host, worker, work)
  await again.send(work.event('after'), work.complete())
  expectRecorded(host.transcript)
  expect(await host.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout before',
    'stdout after',
    'status completed',
  ])
})

test('reconnecting a hundred times is no interruption', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  let connection = worker.connection
  for (let times = 0; times < 100; times++) {
    await connection.drop()
    await host.advance(100)
    connection = await reconnect(host, worker, work)
  }
  await connection.send(work.complete())
  expect(host.run(runId).status).toBe('completed')
})

test('the runs of a disconnected worker go to no other worker', async () => {
  const host = await startHost()
  const { connection, runId } = await acceptRun(host)
  const second = await enroll(host, 'other')
  await connection.drop()
  await host.advanceWithHeartbeats(164, [second.connection])
  expect(second.connection.hasReceived('dispatch')).toBe(false)
  await host.advanceWithHeartbeats(2, [second.connection])
  expect(second.connection.lastReceived('dispatch').lease.runId).toBe(runId)
})

test('after the machine slept no lease expires before its worker had a heartbeat timeout to reconnect', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.drop()
  await host.advance(160)
  host.clock.jumpWallClock(3_600_000)
  await host.advance(20)
  expect(host.run(runId).status).toBe('preparing')
  const again = await reconnect(host, worker, work)
  await again.send(work.complete())
  expect(host.run(runId).status).toBe('completed')
})

test('a worker that does not reconnect after the machine slept still loses its lease', async () => {
  const host = await startHost()
  const { runId } = await acceptRun(host)
  await host.advance(160)
  host.clock.jumpWallClock(3_600_000)
  await host.advance(60)
  expect(host.run(runId).status).toBe('queued')
})

test('two runs of one disconnected worker are each queued once', async () => {
  const host = await startHost()
  const { connection, runId } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  await host.advance(165)
  expect(host.run(runId).status).toBe('queued')
  expect(host.runOf('ENG-2').status).toBe('queued')
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
})

test('a lease that expired while the disk was full: its worker receives `lease-lost` once the end is on disk, and the run is queued once', async () => {
  const host = await startHost()
  const { worker, connection: lost, work, runId } = await acceptRun(host)
  await lost.drop()
  host.fillDisk()
  await host.advance(165)
  const connection = await reconnect(host, worker, work)
  await connection.send(work.complete())
  expect(connection.hasReceived('lease-lost')).toBe(false)
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  await host.freeDisk()
  await connection.sendHeartbeat(work)
  expect(connection.lastReceived('lease-lost').reason).toBe('this lease has ended: expired')
  expect((await host.events(runId)).filter((line) => line === 'status queued')).toHaveLength(2)
})

test('a worker that reconnects in the tick in which its lease expires: one of the two, never both', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.advance(164)
  host.clock.after(
    1000,
    () => void host.connect().send({ ...registerWithCredential(worker), activeLeases: [work.holding] }),
  )
  await host.advance(1)
  const held = host.hostApi.fleet().workers[0]?.activeRuns
  const leases = [...host.store.database.snapshots.all('lease')].map(([id]) => id)
  expect(leases).toHaveLength(held ?? 0)
  expect(leases.includes(work.id)).toBe(host.run(runId).status === 'preparing')
})

test('a worker whose silence could not be stored on a full disk keeps its lease when it reconnects', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  host.fillDisk()
  await host.advance(300)
  const connection = await reconnect(host, worker, work)
  await connection.send(work.event(), work.complete())
  await host.freeDisk()
  expect(connection.lastReceived('run-complete-ack').leaseId).toBe(work.id)
  expect(await host.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'stdout hello',
    'status completed',
  ])
})

test('a worker that is disconnected when the disk has space again after its deadline: queued at once', async () => {
  const host = await startHost()
  const { runId } = await acceptRun(host)
  host.fillDisk()
  await host.advance(300)
  await host.freeDisk()
  await host.advance(1)
  expect(host.run(runId).status).toBe('queued')
})

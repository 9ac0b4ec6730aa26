/** How a run is dispatched to a worker: rule 4 of the worker channel, and the consequences of each answer. */
import { expect, test } from '@jest/globals'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  configWith,
  enroll,
  inMemoryOnly,
  offerRun,
  pairingToken,
  reconnect,
  registerWithToken,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

test('a lease is written to durable storage before its dispatch frame is sent', async () => {
  const host = await startHost()
  await enroll(host)
  host.clearTranscript()
  host.beforeCommit('lease', () => host.fillDisk())
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect([...host.store.database.snapshots.all('lease')]).toEqual([])
  await host.freeDisk()
  expectRecorded(host.transcript)
})

test('a ticket becomes a dispatched run with one commit of what has changed', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  const { database } = host.store
  const commits: string[][] = []
  const commit = database.commit.bind(database)
  database.commit = (writes) => {
    commits.push(writes.map((write) => ('kind' in write ? write.kind : write.table)).sort())
    return commit(writes)
  }
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(connection.hasReceived('dispatch')).toBe(true)
  expect(commits).toEqual([['events', 'key-value', 'lease', 'run', 'run']])
})

test('a dispatch that waits for the audit trail counts as sent once the trail has the enrollment', async () => {
  const host = await startHost()
  let write = (): void => {}
  host.store.trail.record = () =>
    new Promise((resolve) => {
      write = resolve
    })
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const connection = host.connect()
  await connection.send(registerWithToken(pairingToken(host)))
  await connection.sendHeartbeat()
  for (let second = 0; second < 12; second++) {
    await host.advance(1)
    await connection.sendHeartbeat()
  }
  expect([connection.hasReceived('registered'), connection.hasReceived('dispatch')]).toEqual([false, false])
  write()
  await host.settle()
  const { lease } = connection.lastReceived('dispatch')
  expect(Date.parse(lease.expiresAt) - host.clock.now()).toBe(lease.remainingMs)
  await host.advance(9)
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(1)
  expect(connection.hasReceived('lease-lost')).toBe(false)
})

// The host schedules again as soon as the disk has space again.
test('no lease is granted while the disk is full, and the first one as soon as it has space again', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  host.fillDisk()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(connection.hasReceived('dispatch')).toBe(false)
  await host.freeDisk()
  expect(connection.hasReceived('dispatch')).toBe(true)
})

test('while its dispatch is unanswered the run’s status stays queued', async () => {
  const host = await startHost()
  const { runId } = await offerRun(host)
  expect(host.run(runId)).toMatchObject({ status: 'queued' })
  expect(host.run(runId)).not.toHaveProperty('queueReason')
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(1)
})

test('`dispatch-accepted`: preparing; startedAt set, queueReason cleared', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const { id } = host.runOf('ENG-1')
  expect(host.run(id).queueReason).toBe(FLEET_REASONS.away)
  const { connection, workerId } = await enroll(host)
  await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  expect(host.run(id)).toMatchObject({
    status: 'preparing',
    startedAt: '2026-01-01T00:00:01.000Z',
    sandbox: { provider: 'bwrap', workerId },
  })
  expect(host.run(id)).not.toHaveProperty('queueReason')
})

test('`dispatch-rejected`: lease dropped, run queued again, that worker not asked again for 30 s', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('busy: two runs already'))
  expect(host.runOf('ENG-1').status).toBe('queued')
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
  await host.advance(29)
  await host.advance(1)
  expectRecorded(host.transcript)
})

test('a run that one worker rejected goes to another at once', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  const second = await enroll(host, 'other', 1)
  host.clearTranscript()
  await connection.send(work.reject('busy: two runs already'))
  expectRecorded(host.transcript)
  expect(second.connection.lastReceived('dispatch').lease.runId).toBe(runId)
})

test('a worker that rejected a dispatch gets no other run for 30 s either', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('busy: two runs already'))
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(connection.countReceived('dispatch')).toBe(1)
  expect(host.runOf('ENG-2').queueReason).toBe(FLEET_REASONS.paused)
})

test('a worker that was draining gets a dispatch at once after its restart', async () => {
  const host = await startHost()
  const { worker, connection, work } = await offerRun(host)
  await connection.send(work.reject('draining: it stops soon'))
  await connection.drop()
  await host.advance(2)
  await reconnect(host, worker)
  expectRecorded(host.transcript)
})

test('a worker that was busy gets no dispatch during its pause, however often it reconnects', async () => {
  const host = await startHost()
  const { worker, connection, work } = await offerRun(host)
  await connection.send(work.reject('busy: two runs already'))
  await connection.drop()
  await host.advance(2)
  const again = await reconnect(host, worker)
  expect(again.countReceived('dispatch')).toBe(0)
})

test('a rejected run keeps its place in the queue', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host, 'ENG-1', 1)
  host.tracker.put(ticket('ENG-2'), ticket('ENG-0', { createdAt: '2025-12-02T00:00:00.000Z' }))
  await connection.send(work.reject('busy: not now'))
  await host.withoutTranscript(() => host.advanceWithHeartbeats(31, [connection]))
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-1')
})

test('no answer in 10 s: lease dropped, run queued again, that worker not asked again for 30 s', async () => {
  const host = await startHost()
  const { connection, runId } = await offerRun(host)
  await host.advance(9)
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(1)
  await host.advance(1)
  expect(host.run(runId).status).toBe('queued')
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
  await host.advance(29)
  await host.advance(1)
  expectRecorded(host.transcript)
  expect(connection.closed).toBeUndefined()
})

inMemoryOnly('through a socket, the answer to the first of two frames comes before the second is sent')(
  'an answer that comes after 10 s is answered with `lease-lost`',
  async () => {
    const host = await startHost()
    const { connection, work, runId } = await offerRun(host)
    await host.advance(10)
    host.clearTranscript()
    await connection.send(work.accept(), work.running())
    expect(host.transcript[1]).toBe('host → worker  lease-lost ENG-1: this lease has ended: declined')
    expect(host.transcript.filter((line) => line.includes('lease-lost'))).toHaveLength(1)
    expect(host.run(runId).status).toBe('queued')
  },
)

test('a run whose dispatch nobody answered in 10 s goes to another worker at once', async () => {
  const host = await startHost()
  const { runId } = await offerRun(host)
  const second = await enroll(host, 'other', 1)
  await host.advance(10)
  expect(second.connection.lastReceived('dispatch').lease.runId).toBe(runId)
})

test('a worker that reports on a lease has accepted it, even if its acceptance was lost', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  await connection.send(work.running(), work.complete())
  expect(connection.lastReceived('run-complete-ack').leaseId).toBe(work.id)
  expect(await host.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'status completed',
  ])
})

test('accepting twice is accepting once', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  await connection.send(work.accept(), work.accept(), work.reject('busy: no'), work.accept())
  expect(host.run(runId).status).toBe('preparing')
  expect(connection.received.slice(-1)[0]?.type).toBe('dispatch')
})

test('a worker drained between grant and dispatch gets no dispatch', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  host.clearTranscript()
  host.beforeCommit('lease', () => void host.hostApi.drainWorker(workerId))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.transcript).toEqual(['host → worker  worker-state draining'])
  expect(connection.hasReceived('dispatch')).toBe(false)
  expect(host.runOf('ENG-1')).toMatchObject({ status: 'queued', queueReason: FLEET_REASONS.draining })
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
})

test('a run whose worker was drained between grant and dispatch goes to another one', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host, 'worker', 2)
  const second = await enroll(host, 'other', 1)
  host.beforeCommit('lease', () => void host.hostApi.drainWorker(workerId))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(second.connection.hasReceived('dispatch')).toBe(true)
})

test('a worker that is enabled again before its drain is on disk still gets its run', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  host.beforeCommit('lease', () => {
    void host.hostApi.drainWorker(workerId)
    void host.hostApi.enableWorker(workerId)
  })
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(connection.hasReceived('dispatch')).toBe(true)
})

inMemoryOnly('a connection does not break within a moment')(
  'a worker whose line breaks between grant and dispatch loses the run at once',
  async () => {
    const host = await startHost()
    const { connection } = await enroll(host)
    const second = await enroll(host, 'other', 1)
    host.clearTranscript()
    host.beforeCommit('lease', () => void connection.drop())
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    expectRecorded(host.transcript)
    expect(second.connection.hasReceived('dispatch')).toBe(true)
  },
)

inMemoryOnly('a connection does not break within a moment')(
  'a line that breaks and is back between grant and dispatch: the run is not lost',
  async () => {
    const host = await startHost()
    const worker = await enroll(host)
    host.beforeCommit('lease', () => {
      void worker.connection.drop()
      void reconnect(host, worker)
    })
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    await host.advance(1)
    const dispatched = host.transcript.filter((line) => line.includes('dispatch'))
    expect(dispatched).toHaveLength(1)
  },
)

test('connection lost after the dispatch: a worker that reconnects holding the lease has accepted it', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await offerRun(host)
  await connection.drop()
  await host.advance(60)
  expect(host.run(runId).status).toBe('queued')
  const again = await reconnect(host, worker, work)
  await again.send(work.accept(), work.complete())
  expectRecorded(host.transcript)
  expect(host.run(runId).status).toBe('completed')
})

test('connection lost after the dispatch: a worker that reconnects without the lease never received it', async () => {
  const host = await startHost()
  const { worker, connection, runId } = await offerRun(host)
  await connection.drop()
  await host.advance(5)
  await reconnect(host, worker)
  expectRecorded(host.transcript)
  expect(await host.events(runId)).toEqual(['status queued'])
})

test('connection lost after the dispatch: no other worker gets the run before the lease’s deadline, counted from the latest possible arrival', async () => {
  const host = await startHost()
  const { connection, runId } = await offerRun(host)
  const second = await enroll(host, 'other')
  await connection.drop()
  await host.advanceWithHeartbeats(219, [second.connection])
  expect(second.connection.hasReceived('dispatch')).toBe(false)
  await host.advanceWithHeartbeats(2, [second.connection])
  expect(second.connection.lastReceived('dispatch').lease.runId).toBe(runId)
  expect(host.run(runId)).not.toHaveProperty('queueReason')
})

test('three `sandbox` or `disk` rejections in 5 minutes put that worker on hold, with the reason in the log and in placement', async () => {
  const host = await startHost()
  const { connection, work, worker, runId } = await offerRun(host)
  await connection.send(work.reject('disk: 200 MB free'))
  for (const reason of ['sandbox: bwrap is missing', 'disk: 100 MB free']) {
    await host.advanceWithHeartbeats(31, [connection])
    await connection.send(new Work(connection.lastReceived('dispatch')).reject(reason))
  }
  await host.advanceWithHeartbeats(60, [connection])
  expect(connection.countReceived('dispatch')).toBe(3)
  const reason = expect.stringContaining('"disk: 100 MB free"')
  const fullDisk = 'the disk of worker worker is full (100 MB free)'
  expect(host.log.lines).toContainEqual({
    level: 'warn',
    fields: { worker: worker.workerId, reason },
    message: expect.stringContaining('on hold'),
  })
  const placement = host.hostApi.placement(runId)
  expect(placement).toMatchObject({
    ok: true,
    value: {
      reason: fullDisk,
      workers: [{ reason: expect.stringMatching(/^on hold: .*"disk: 100 MB free"/) }],
    },
  })
  expect(host.run(runId).queueReason).toBe(fullDisk)
})

test('a hold ends by itself after ten minutes', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await host.advanceWithHeartbeats(31, [connection])
    await connection.send(new Work(connection.lastReceived('dispatch')).reject('disk: full'))
  }
  await host.advanceWithHeartbeats(599, [connection])
  expect(connection.countReceived('dispatch')).toBe(3)
  await host.advanceWithHeartbeats(2, [connection])
  expect(connection.countReceived('dispatch')).toBe(4)
})

test('enabling a worker on hold ends the hold', async () => {
  const host = await startHost()
  const { connection, work, worker } = await offerRun(host)
  await connection.send(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await host.advanceWithHeartbeats(31, [connection])
    await connection.send(new Work(connection.lastReceived('dispatch')).reject('disk: full'))
  }
  await host.advanceWithHeartbeats(60, [connection])
  await host.succeeded(host.hostApi.enableWorker(worker.workerId))
  expect(connection.countReceived('dispatch')).toBe(4)
})

test('rejections because a worker is busy put no worker on hold', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('busy: later'))
  for (let times = 0; times < 5; times++) {
    await host.advanceWithHeartbeats(31, [connection])
    await connection.send(new Work(connection.lastReceived('dispatch')).reject('busy: later'))
  }
  await host.advanceWithHeartbeats(31, [connection])
  expect(connection.countReceived('dispatch')).toBe(7)
})

test('three such rejections over more than 5 minutes put no worker on hold', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await host.advanceWithHeartbeats(31, [connection])
    const next = new Work(connection.lastReceived('dispatch'))
    await connection.send(next.accept(), next.complete({ status: 'failed', error: 'x' }))
    await host.advanceWithHeartbeats(140, [connection])
    await host.succeeded(host.hostApi.retryRun(host.runOf('ENG-1').id))
    await connection.send(new Work(connection.lastReceived('dispatch')).reject('disk: full'))
  }
  await host.advanceWithHeartbeats(31, [connection])
  expect(connection.countReceived('dispatch')).toBe(6)
})

test('a worker executes at most maxConcurrency runs at once', async () => {
  const host = await startHost()
  const { connection } = await enroll(host, 'worker', 2)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  expect(connection.countReceived('dispatch')).toBe(2)
  const first = new Work(connection.lastReceived('dispatch'))
  await connection.send(first.accept(), first.complete())
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('capabilities in a heartbeat count from then on', async () => {
  const host = await startHost()
  const { connection } = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  expect(connection.countReceived('dispatch')).toBe(1)
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.2.0' }
  await connection.send({ type: 'heartbeat', leases: [], attachSessions: 0, sentAt: 1, capabilities })
  expect(connection.countReceived('dispatch')).toBe(2)
  expect(host.hostApi.fleet().workers[0]?.capabilities?.version).toBe('0.2.0')
})

test('a dispatch carries the credentials that one run needs inline', async () => {
  const host = await startHost(
    configWith({
      agent: { agentAApiKey: 'key-a', agentBApiKey: 'key-b', orchestratorModel: 'big', maxTurns: 9 },
      codehost: { driver: 'github', token: 'ghs' },
      sandbox: { maxRunMinutes: 30, retentionHours: 7 },
    }),
  )
  const { work } = await offerRun(host)
  expect(work.job).toMatchObject({
    kind: 'run',
    repo: { key: 'main', remote: 'owner/name', defaultBranch: 'main' },
    base: 'main',
    agent: { provider: 'agentA', model: 'big', effort: 'medium', memories: [] },
    credentials: { codehost: 'ghs', agent: { kind: 'api-key', value: 'key-a' } },
    limits: { maxMinutes: 30, maxTurns: 9 },
    retentionHours: 7,
  })
  expect(JSON.stringify(work.job)).not.toContain('key-b')
})

test('no credential of a dispatch is written to disk', async () => {
  const host = await startHost(configWith({ agent: { agentAApiKey: 'key-a-secret' } }))
  const { runId } = await acceptRun(host)
  const { database } = host.store
  const kept = [
    database.snapshots.kinds().map((kind) => [...database.snapshots.all(kind)]),
    database.runs.list({}),
  ]
  expect(JSON.stringify(kept)).not.toContain('key-a-secret')
  expect(JSON.stringify([host.run(runId), host.hostApi.hello()])).not.toContain('key-a-secret')
})

inMemoryOnly('a socket buffers a great deal before it accepts nothing more')(
  'a worker whose line takes nothing more is not offered one run again and again until it is cut',
  async () => {
    const host = await startHost()
    const { connection } = await enroll(host)
    connection.framesUntilFull = 0
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    expect(connection.refusedCount).toBe(1)
    await connection.drop()
    expect(host.runOf('ENG-1').status).toBe('queued')
  },
)

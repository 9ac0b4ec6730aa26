/** How a run gets to a worker: rule 4 of the worker channel, and what follows from each answer to a dispatch. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, configWith, enroll, inHand, offered, ticket, Work, yarn } from './host-conversation.ts'

test('a lease is written to durable storage before its dispatch frame is sent', async () => {
  const y = await yarn()
  await enroll(y)
  y.fresh()
  y.beforeLanding('lease', () => y.fill())
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect([...y.store.database.snapshots.all('lease')]).toEqual([])
  await y.drain()
  expectRecorded(y.said)
})

// Nobody looks at the queue again when the disk has room again (see the root's `hear`).
test('no lease is granted while the disk is full, and the first one when it has room again', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.fill()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(wire.has('dispatch')).toBe(false)
  await y.drain()
  expect(wire.has('dispatch')).toBe(true)
})

test('while its dispatch is unanswered the run’s status stays queued', async () => {
  const y = await yarn()
  const { runId } = await offered(y)
  expect(y.run(runId)).toMatchObject({ status: 'queued' })
  expect(y.run(runId)).not.toHaveProperty('queueReason')
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(1)
})

test('`dispatch-accepted`: preparing; startedAt set, queueReason cleared', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const { id } = y.runOf('ENG-1')
  expect(y.run(id).queueReason).toBe('no workers connected')
  const { wire, workerId } = await enroll(y)
  await wire.say(new Work(wire.last('dispatch')).accept())
  expect(y.run(id)).toMatchObject({
    status: 'preparing',
    startedAt: '2026-01-01T00:00:01.000Z',
    sandbox: { provider: 'bwrap', workerId },
  })
  expect(y.run(id)).not.toHaveProperty('queueReason')
})

test('`dispatch-rejected`: lease dropped, run queued again, that worker not asked again for 30 s', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.say(work.reject('busy: two runs already'))
  expect(y.runOf('ENG-1').status).toBe('queued')
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
  await y.pass(29)
  await y.pass(1)
  expectRecorded(y.said)
})

test('a run that one worker rejected goes to another at once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  const other = await enroll(y, 'other', 1)
  y.fresh()
  await wire.say(work.reject('busy: two runs already'))
  expectRecorded(y.said)
  expect(other.wire.last('dispatch').lease.runId).toBe(runId)
})

test('a worker that rejected a dispatch gets no other run for 30 s either', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.say(work.reject('busy: two runs already'))
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(wire.count('dispatch')).toBe(1)
  expect(y.runOf('ENG-2').queueReason).toBe('all workers refused a dispatch a moment ago')
})

test('a worker that was draining, and was started again, is asked at once', async () => {
  const y = await yarn()
  const { worker, wire, work } = await offered(y)
  await wire.say(work.reject('draining: the worker is being stopped'))
  await wire.drop()
  await y.pass(2)
  await back(y, worker)
  expectRecorded(y.said)
})

test('a worker that was busy is left alone, however often it comes back', async () => {
  const y = await yarn()
  const { worker, wire, work } = await offered(y)
  await wire.say(work.reject('busy: two runs already'))
  await wire.drop()
  await y.pass(2)
  const again = await back(y, worker)
  expect(again.count('dispatch')).toBe(0)
})

test('a rejected run keeps its place in the queue', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y, 'ENG-1', 1)
  y.tracker.put(ticket('ENG-2'), ticket('ENG-0', { createdAt: '2025-12-02T00:00:00.000Z' }))
  await wire.say(work.reject('busy: not now'))
  await y.quietly(() => y.beating(31, [wire]))
  expect(wire.last('dispatch').job.run.ticket.identifier).toBe('ENG-1')
})

test('no answer in 10 s: lease dropped, run queued again, that worker not asked again for 30 s', async () => {
  const y = await yarn()
  const { wire, runId } = await offered(y)
  await y.pass(9)
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(1)
  await y.pass(1)
  expect(y.run(runId).status).toBe('queued')
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
  await y.pass(29)
  await y.pass(1)
  expectRecorded(y.said)
  expect(wire.closed).toBeUndefined()
})

inHand('the answer to the first of two frames comes before the second is said')(
  'an answer that comes after 10 s is answered with `lease-lost`',
  async () => {
    const y = await yarn()
    const { wire, work, runId } = await offered(y)
    await y.pass(10)
    y.fresh()
    await wire.say(work.accept(), work.running())
    expect(y.said[1]).toBe('host → worker  lease-lost ENG-1: this lease has ended: declined')
    expect(y.said.filter((line) => line.includes('lease-lost'))).toHaveLength(1)
    expect(y.run(runId).status).toBe('queued')
  },
)

test('a run whose dispatch nobody answered in 10 s goes to another worker at once', async () => {
  const y = await yarn()
  const { runId } = await offered(y)
  const other = await enroll(y, 'other', 1)
  await y.pass(10)
  expect(other.wire.last('dispatch').lease.runId).toBe(runId)
})

test('a worker that reports on a lease has accepted it, even if the word of it was lost', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  await wire.say(work.running(), work.complete())
  expect(wire.last('run-complete-ack').leaseId).toBe(work.id)
  expect(await y.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'status completed',
  ])
})

test('accepting twice is accepting once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  await wire.say(work.accept(), work.accept(), work.reject('busy: no'), work.accept())
  expect(y.run(runId).status).toBe('preparing')
  expect(wire.heard.slice(-1)[0]?.type).toBe('dispatch')
})

test('a worker drained between grant and dispatch gets no dispatch', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  y.fresh()
  y.beforeLanding('lease', () => void y.desk.drainWorker(workerId))
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.said).toEqual(['host → worker  worker-state draining'])
  expect(wire.has('dispatch')).toBe(false)
  expect(y.runOf('ENG-1')).toMatchObject({ status: 'queued', queueReason: 'all workers are draining' })
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
})

test('a run whose worker was drained between grant and dispatch goes to another one', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y, 'worker', 2)
  const other = await enroll(y, 'other', 1)
  y.beforeLanding('lease', () => void y.desk.drainWorker(workerId))
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(other.wire.has('dispatch')).toBe(true)
})

test('a worker whose drain is lifted again before it is on disk gets its run all the same', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  y.beforeLanding('lease', () => {
    void y.desk.drainWorker(workerId)
    void y.desk.enableWorker(workerId)
  })
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(wire.has('dispatch')).toBe(true)
})

inHand('a connection does not break within a moment')(
  'a worker whose line breaks between grant and dispatch loses the run at once',
  async () => {
    const y = await yarn()
    const { wire } = await enroll(y)
    const other = await enroll(y, 'other', 1)
    y.fresh()
    y.beforeLanding('lease', () => void wire.drop())
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
    expectRecorded(y.said)
    expect(other.wire.has('dispatch')).toBe(true)
  },
)

inHand('a connection does not break within a moment')(
  'a line that breaks and is back between grant and dispatch: the run is not lost',
  async () => {
    const y = await yarn()
    const worker = await enroll(y)
    y.beforeLanding('lease', () => {
      void worker.wire.drop()
      void back(y, worker)
    })
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
    await y.pass(1)
    const dispatched = y.said.filter((line) => line.includes('dispatch'))
    expect(dispatched).toHaveLength(1)
  },
)

test('the line breaks after the dispatch: a worker that comes back holding the lease has accepted it', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await offered(y)
  await wire.drop()
  await y.pass(60)
  expect(y.run(runId).status).toBe('queued')
  const again = await back(y, worker, work)
  await again.say(work.accept(), work.complete())
  expectRecorded(y.said)
  expect(y.run(runId).status).toBe('completed')
})

test('the line breaks after the dispatch: a worker that comes back without the lease never got it', async () => {
  const y = await yarn()
  const { worker, wire, runId } = await offered(y)
  await wire.drop()
  await y.pass(5)
  await back(y, worker)
  expectRecorded(y.said)
  expect(await y.events(runId)).toEqual(['status queued'])
})

test('the line breaks after the dispatch: nobody else gets the run before the lease’s deadline, counted from the latest arrival', async () => {
  const y = await yarn()
  const { wire, runId } = await offered(y)
  const other = await enroll(y, 'other')
  await wire.drop()
  await y.beating(219, [other.wire])
  expect(other.wire.has('dispatch')).toBe(false)
  await y.beating(2, [other.wire])
  expect(other.wire.last('dispatch').lease.runId).toBe(runId)
  expect(y.run(runId)).not.toHaveProperty('queueReason')
})

test('three `sandbox` or `disk` rejections in 5 minutes put that worker on hold, with the reason in the log and in placement', async () => {
  const y = await yarn()
  const { wire, work, worker, runId } = await offered(y)
  await wire.say(work.reject('disk: 200 MB free'))
  for (const reason of ['sandbox: bwrap is missing', 'disk: 100 MB free']) {
    await y.beating(31, [wire])
    await wire.say(new Work(wire.last('dispatch')).reject(reason))
  }
  await y.beating(60, [wire])
  expect(wire.count('dispatch')).toBe(3)
  const hold = 'refused 3 dispatches within 5 minutes, the last with "disk: 100 MB free"'
  expect(y.log.lines).toContainEqual({
    level: 'warn',
    fields: { worker: worker.workerId, reason: hold },
    message: 'a worker is put on hold for dispatch',
  })
  const placement = y.desk.placement(runId)
  expect(placement).toMatchObject({
    ok: true,
    value: { reason: 'all workers are on hold', workers: [{ reason: `on hold: ${hold}` }] },
  })
  expect(y.run(runId).queueReason).toBe('all workers are on hold')
})

test('a hold ends by itself after ten minutes', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.say(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await y.beating(31, [wire])
    await wire.say(new Work(wire.last('dispatch')).reject('disk: full'))
  }
  await y.beating(599, [wire])
  expect(wire.count('dispatch')).toBe(3)
  await y.beating(2, [wire])
  expect(wire.count('dispatch')).toBe(4)
})

test('an operator who enables a worker on hold ends the hold', async () => {
  const y = await yarn()
  const { wire, work, worker } = await offered(y)
  await wire.say(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await y.beating(31, [wire])
    await wire.say(new Work(wire.last('dispatch')).reject('disk: full'))
  }
  await y.beating(60, [wire])
  await y.done(y.desk.enableWorker(worker.workerId))
  expect(wire.count('dispatch')).toBe(4)
})

test('being busy puts nobody on hold', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.say(work.reject('busy: later'))
  for (let times = 0; times < 5; times++) {
    await y.beating(31, [wire])
    await wire.say(new Work(wire.last('dispatch')).reject('busy: later'))
  }
  await y.beating(31, [wire])
  expect(wire.count('dispatch')).toBe(7)
})

test('three such rejections over more than 5 minutes put nobody on hold', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.say(work.reject('disk: full'))
  for (let times = 0; times < 2; times++) {
    await y.beating(31, [wire])
    const next = new Work(wire.last('dispatch'))
    await wire.say(next.accept(), next.complete({ status: 'failed', error: 'x' }))
    await y.beating(140, [wire])
    await y.done(y.desk.retryRun(y.runOf('ENG-1').id))
    await wire.say(new Work(wire.last('dispatch')).reject('disk: full'))
  }
  await y.beating(31, [wire])
  expect(wire.count('dispatch')).toBe(6)
})

test('a worker executes at most maxConcurrency runs at once', async () => {
  const y = await yarn()
  const { wire } = await enroll(y, 'worker', 2)
  y.tracker.put(ticket('ENG-1'), ticket('ENG-2'), ticket('ENG-3'))
  await y.settle()
  expect(wire.count('dispatch')).toBe(2)
  const first = new Work(wire.last('dispatch'))
  await wire.say(first.accept(), first.complete())
  expect(wire.last('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('capabilities in a heartbeat count from then on', async () => {
  const y = await yarn()
  const { wire } = await enroll(y, 'worker', 1)
  y.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await y.settle()
  expect(wire.count('dispatch')).toBe(1)
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.2.0' }
  await wire.say({ type: 'heartbeat', leases: [], attachSessions: 0, sentAt: 1, capabilities })
  expect(wire.count('dispatch')).toBe(2)
  expect(y.desk.fleet().workers[0]?.capabilities?.version).toBe('0.2.0')
})

test('a dispatch carries the credentials that one run needs inline', async () => {
  const y = await yarn(
    configWith({
      agent: { agentAApiKey: 'key-a', agentBApiKey: 'key-b', orchestratorModel: 'big', maxTurns: 9 },
      codehost: { driver: 'github', token: 'ghs' },
      sandbox: { maxRunMinutes: 30, retentionHours: 7 },
    }),
  )
  const { work } = await offered(y)
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
  const y = await yarn(configWith({ agent: { agentAApiKey: 'key-a-secret' } }))
  const { runId } = await busy(y)
  const { database } = y.store
  const kept = [
    database.snapshots.kinds().map((kind) => [...database.snapshots.all(kind)]),
    database.runs.list({}),
  ]
  expect(JSON.stringify(kept)).not.toContain('key-a-secret')
  expect(JSON.stringify([y.run(runId), y.desk.hello()])).not.toContain('key-a-secret')
})

inHand('a socket takes a great deal before it takes nothing more')(
  'a worker whose line takes nothing more is not offered one run again and again until it is cut',
  async () => {
    const y = await yarn()
    const { wire } = await enroll(y)
    wire.takes = 0
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
    expect(wire.refused).toBe(1)
    await wire.drop()
    expect(y.runOf('ENG-1').status).toBe('queued')
  },
)

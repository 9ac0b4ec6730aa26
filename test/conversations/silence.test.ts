/** A worker that goes away: rules 3, 7 and 9 of the worker channel, and the arithmetic of a lease's deadline. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  back,
  busy,
  configWith,
  enroll,
  heartbeat,
  offered,
  rejoin,
  ticket,
  Work,
  yarn,
} from './host-conversation.ts'

test('silence longer than 45 s drops the connection', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.fresh()
  await y.pass(44)
  await y.pass(1)
  expect(y.said).toEqual(['44 s pass', '1 s pass', 'host ✕ worker'])
  expect(wire.closed?.reason).toBe('nothing was heard for longer than the heartbeat timeout')
  expect(y.desk.fleet().workers[0]?.connection).toBe('offline')
})

test('a heartbeat every 15 s keeps the connection', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await y.beating(600, [wire, work])
  expect(wire.closed).toBeUndefined()
  expect(y.run(runId).status).toBe('preparing')
})

test('any frame is a sign of life', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  for (let at = 0; at < 5; at++) {
    await y.pass(40)
    await wire.say(work.event())
  }
  expect(wire.closed).toBeUndefined()
})

test('fleet.heartbeatTimeoutSeconds and fleet.reconnectGraceSeconds are configured', async () => {
  const y = await yarn(configWith({ fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 40 } }))
  const { wire, runId } = await busy(y)
  expect(wire.last('dispatch').lease.remainingMs).toBe(60_000)
  await y.pass(20)
  expect(wire.closed).toBeDefined()
  await y.pass(39)
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(1)
  expect(y.run(runId).status).toBe('queued')
})

test('a dispatch and each lease-ack say how much longer the lease lives, and the latter echoes the heartbeat', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  expect(wire.last('dispatch').lease).toMatchObject({
    remainingMs: 165_000,
    expiresAt: '2026-01-01T00:02:46.000Z',
  })
  await y.pass(10)
  const beat = heartbeat(y, work)
  await wire.say(beat)
  expect(wire.last('heartbeat-ack')).toEqual({ type: 'heartbeat-ack', state: 'active', echo: beat.sentAt })
  expect(wire.last('lease-ack')).toEqual({
    type: 'lease-ack',
    echo: beat.sentAt,
    leases: [{ leaseId: work.id, seq: 0, expiresAt: '2026-01-01T00:02:56.000Z', remainingMs: 165_000 }],
  })
})

test('the wall clock’s jumps neither lengthen nor shorten a lease', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  y.clock.jump(-86_400_000)
  await wire.drop()
  await y.pass(164)
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(1)
  expect(y.run(runId).status).toBe('queued')
  expect(work.holding.lastSeq).toBe(0)
})

test.each([
  ['breaks', 0],
  ['falls silent', 1],
])('a worker whose wire %s has 45 s and 120 s from the last contact to come back', async (_, silent) => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await y.pass(30)
  await wire.say(work.running())
  if (silent === 0) await y.pass(10)
  if (silent === 0) await wire.drop()
  await y.pass(silent === 0 ? 154 : 164)
  expect(y.run(runId).status).toBe('running')
  y.fresh()
  const again = await back(y, worker, work)
  await again.say(work.complete())
  expectRecorded(y.said)
})

test('a worker that never returns loses the lease 165 s after its last contact, and the run is queued again', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.running())
  await y.pass(10)
  await wire.drop()
  await y.pass(154)
  expect(y.run(runId).status).toBe('running')
  await y.pass(1)
  expect(y.run(runId)).toMatchObject({
    status: 'queued',
    queueReason: expect.stringMatching(/^interrupted: the worker did not come back in time/),
  })
  expect(y.run(runId)).not.toHaveProperty('startedAt')
})

test('an expired lease queues its run exactly once', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  await y.pass(2000)
  const wire = await back(y, { ...worker, concurrency: 1 }, work)
  await wire.beat(work)
  const statuses = (await y.events(runId)).filter((line) => line.startsWith('status'))
  expect(statuses).toEqual(['status queued', 'status preparing', 'status queued'])
  expect(y.allRuns()).toHaveLength(1)
})

test('a rejoining worker that claims an expired lease is told that it is lost, and what it says of it has no effect', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  await y.pass(165)
  await y.done(y.desk.drainWorker(worker.workerId))
  y.fresh()
  const wire = await back(y, worker, work)
  await wire.say(work.running(), work.event(), work.complete())
  await wire.beat(work)
  expectRecorded(y.said)
  expect(wire.closed).toBeUndefined()
  expect(y.run(runId).status).toBe('queued')
})

test('on another line the worker is told of the lost lease again', async () => {
  const y = await yarn()
  const { worker, work } = await busy(y)
  await y.pass(165)
  const first = await back(y, worker, work)
  const second = await back(y, worker, work)
  expect([first.count('lease-lost'), second.count('lease-lost')]).toEqual([1, 1])
})

test('a run interrupted 3 times in a row fails', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  for (let times = 2; times <= 3; times++) {
    await y.pass(165)
    expect(y.run(runId).status).toBe('queued')
    const wire = await back(y, worker)
    await wire.say(new Work(wire.last('dispatch')).accept())
  }
  await y.pass(165)
  expect(y.run(runId)).toMatchObject({
    status: 'failed',
    error: 'interrupted 3 times in a row, the last time because the worker did not come back in time',
  })
  await back(y, worker)
  expect(y.run(runId).status).toBe('failed')
})

test('a dispatch that nobody answers is no interruption', async () => {
  const y = await yarn()
  const { wire, runId } = await offered(y)
  for (let times = 0; times < 5; times++) await y.beating(41, [wire])
  expect(wire.count('dispatch')).toBeGreaterThan(3)
  expect(y.run(runId).status).toBe('queued')
  expect(y.run(runId).queueReason ?? '').not.toContain('interrupted')
})

test('a retry forgets the interruptions', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  for (let times = 2; times <= 3; times++) {
    await y.pass(165)
    const wire = await back(y, worker)
    await wire.say(new Work(wire.last('dispatch')).accept())
  }
  await y.pass(165)
  await y.done(y.desk.retryRun(runId))
  const wire = await back(y, worker)
  await wire.say(new Work(wire.last('dispatch')).accept())
  await y.pass(165)
  expect(y.run(runId).status).toBe('queued')
})

test('lease lost, the worker had already opened a pull request: completed, result adopted from it', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const prUrl = 'https://example.com/owner/name/pull/7'
  await wire.say(work.running(), work.patch({ prUrl, prState: 'open', status: 'finalizing' }))
  await y.pass(165)
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    prUrl,
    prState: 'open',
    result: { prUrl, artifacts: [] },
    finishedAt: '2026-01-01T00:02:46.000Z',
  })
})

test('after an adoption the worker that comes back is told that its lease is lost', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.patch({ prUrl: 'https://example.com/owner/name/pull/7' }))
  await y.pass(165)
  const again = await back(y, worker, work)
  await again.say(work.complete({ status: 'failed', error: 'too late' }))
  expect(again.last('lease-lost').leaseId).toBe(work.id)
  expect(again.has('run-complete-ack')).toBe(false)
  expect(y.run(runId).status).toBe('completed')
})

test('lease lost, no pull request known: costs and an earlier pull request’s address are kept', async () => {
  const y = await yarn()
  const { wire, work, worker, runId } = await busy(y)
  const prUrl = 'https://example.com/owner/name/pull/7'
  await wire.say(work.complete({ status: 'failed', error: 'no luck', prUrl }))
  await y.done(y.desk.retryRun(runId))
  const second = new Work(wire.last('dispatch'))
  await wire.say(second.accept())
  await y.pass(165)
  expect(y.run(runId)).toMatchObject({ status: 'queued', prUrl })
  expect(worker.workerId).toBe(y.run(runId).sandbox.workerId)
})

test.each([
  ['beats', 'heartbeat'],
  ['registers', 'register'],
])(
  'an online worker that %s without naming a lease it had accepted: that lease is lost at once',
  async (_, how) => {
    const y = await yarn()
    const { worker, wire, work, runId } = await busy(y)
    await wire.say(work.running())
    await y.done(y.desk.drainWorker(worker.workerId))
    y.fresh()
    if (how === 'heartbeat') await wire.beat()
    else await back(y, worker)
    expect(y.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: expect.stringMatching(/^interrupted: the worker no longer has the lease/),
    })
    expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
  },
)

test('a heartbeat that crosses a dispatch does not name its lease, and loses it nothing', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  await wire.beat()
  await wire.say(work.accept())
  expect(y.run(runId).status).toBe('preparing')
  expect(wire.count('dispatch')).toBe(1)
})

test('a lease is acknowledged from its acceptance on', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  await wire.beat()
  expect(wire.acknowledged(work)).toBeUndefined()
  await wire.say(work.accept())
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(0)
})

test('a worker that comes back holding its lease goes on where it was', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.running(), work.event('before'))
  await wire.drop()
  await y.pass(60)
  y.fresh()
  const again = await back(y, worker, work)
  await again.say(work.event('after'), work.complete())
  expectRecorded(y.said)
  expect(await y.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout before',
    'stdout after',
    'status completed',
  ])
})

test('going away and coming back a hundred times is no interruption', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  let wire = worker.wire
  for (let times = 0; times < 100; times++) {
    await wire.drop()
    await y.pass(100)
    wire = await back(y, worker, work)
  }
  await wire.say(work.complete())
  expect(y.run(runId).status).toBe('completed')
})

test('while a worker is away, its runs are nobody else’s', async () => {
  const y = await yarn()
  const { wire, runId } = await busy(y)
  const other = await enroll(y, 'other')
  await wire.drop()
  await y.beating(164, [other.wire])
  expect(other.wire.has('dispatch')).toBe(false)
  await y.beating(2, [other.wire])
  expect(other.wire.last('dispatch').lease.runId).toBe(runId)
})

test('a machine that slept judges no lease before its workers had a heartbeat’s timeout to be heard of again', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.drop()
  await y.pass(160)
  y.clock.jump(3_600_000)
  await y.pass(20)
  expect(y.run(runId).status).toBe('preparing')
  const again = await back(y, worker, work)
  await again.say(work.complete())
  expect(y.run(runId).status).toBe('completed')
})

test('a worker that does not come back after the machine slept loses its lease all the same', async () => {
  const y = await yarn()
  const { runId } = await busy(y)
  await y.pass(160)
  y.clock.jump(3_600_000)
  await y.pass(60)
  expect(y.run(runId).status).toBe('queued')
})

test('two runs of one worker that went away are each queued once', async () => {
  const y = await yarn()
  const { wire, runId } = await busy(y)
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  await wire.say(new Work(wire.last('dispatch')).accept())
  await y.pass(165)
  expect(y.run(runId).status).toBe('queued')
  expect(y.runOf('ENG-2').status).toBe('queued')
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
})

test('a lease that ran out while the disk was full: its worker is told when the end is on disk, and the run is queued once', async () => {
  const y = await yarn()
  const { worker, wire: lost, work, runId } = await busy(y)
  await lost.drop()
  y.fill()
  await y.pass(165)
  const wire = await back(y, worker, work)
  await wire.say(work.complete())
  expect(wire.has('lease-lost')).toBe(false)
  expect(wire.has('run-complete-ack')).toBe(false)
  await y.drain()
  await wire.beat(work)
  expect(wire.last('lease-lost').reason).toBe('this lease has ended: expired')
  expect((await y.events(runId)).filter((line) => line === 'status queued')).toHaveLength(2)
})

test('a worker that comes back in the moment in which its lease runs out: one of the two, never both', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  await y.pass(164)
  y.clock.after(1000, () => void y.connect().say({ ...rejoin(worker), activeLeases: [work.holding] }))
  await y.pass(1)
  const held = y.desk.fleet().workers[0]?.activeRuns
  const leases = [...y.store.database.snapshots.all('lease')].map(([id]) => id)
  expect(leases).toHaveLength(held ?? 0)
  expect(leases.includes(work.id)).toBe(y.run(runId).status === 'preparing')
})

test('a worker whose silence could not be written down, for the disk was full, is believed when it is back', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  y.fill()
  await y.pass(300)
  const wire = await back(y, worker, work)
  await wire.say(work.event(), work.complete())
  await y.drain()
  expect(wire.last('run-complete-ack').leaseId).toBe(work.id)
  expect(await y.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'stdout hello',
    'status completed',
  ])
})

test('a worker that is away when the disk has room again after its time: queued at once', async () => {
  const y = await yarn()
  const { runId } = await busy(y)
  y.fill()
  await y.pass(300)
  await y.drain()
  await y.pass(1)
  expect(y.run(runId).status).toBe('queued')
})

/** The host goes away and comes back: the queue and the leases are as they were, and nobody does anything twice. */
import { expect, test } from '@jest/globals'
import {
  type Busy,
  back,
  busy,
  enroll,
  inHand,
  offered,
  pairing,
  ticket,
  token,
  Work,
  type Yarn,
  yarn,
} from './host-conversation.ts'

const ends = [
  ['stops', (y: Yarn) => y.restart()],
  ['is killed', (y: Yarn) => y.crash()],
] as const

/** Runs as people see them, and the leases as they are on disk. */
const picture = (y: Yarn) => ({
  runs: y.allRuns().map((run) => ({ ...run, queueReason: undefined })),
  leases: [...y.store.database.snapshots.all('lease')].map(([id]) => id),
})

/** Brings a lease into this state. */
async function leaseThatIs(state: string, y: Yarn): Promise<Busy> {
  if (state === 'offered') return offered(y)
  const given = state === 'unconfirmed' ? await offered(y) : await busy(y)
  const { wire, work, runId } = given
  if (state === 'held' || state === 'adrift') await wire.say(work.running(), work.event('one'))
  if (state === 'unconfirmed' || state === 'adrift') await wire.drop()
  if (state === 'cancelling') await y.done(y.desk.cancelRun(runId))
  return given
}

const states = ['offered', 'unconfirmed', 'held', 'adrift', 'cancelling']

for (const [how, end] of ends)
  test.each(states)(`the host ${how} while a lease is %s: queue and leases are equal`, async (state) => {
    const y = await yarn()
    await leaseThatIs(state, y)
    y.tracker.put(
      ticket('ENG-2', { blockedBy: ['ENG-1'] }),
      ticket('ENG-3', { priority: 1, blockedBy: ['ENG-1'] }),
    )
    await y.settle()
    const before = picture(y)
    await end(y)
    expect(picture(y)).toEqual(before)
    expect(before.leases).toHaveLength(1)
  })

for (const [how, end] of ends)
  test.each(states)(
    `the host ${how} while a lease is %s: its worker comes back with it and finishes the run, once`,
    async (state) => {
      const y = await yarn()
      const { worker, work } = await leaseThatIs(state, y)
      await end(y)
      const other = await enroll(y, 'other')
      expect(other.wire.has('dispatch')).toBe(false)
      const wire = await back(y, worker, work)
      await wire.say(
        work.accept(),
        work.event('last'),
        work.complete({ status: state === 'cancelling' ? 'cancelled' : 'completed' }),
      )
      expect(wire.last('run-complete-ack').leaseId).toBe(work.id)
      expect(y.run(work.runId).status).toBe(state === 'cancelling' ? 'cancelled' : 'completed')
      expect(y.allRuns()).toHaveLength(1)
      expect(other.wire.has('dispatch')).toBe(false)
      expect([...y.store.database.snapshots.all('lease')]).toEqual([])
    },
  )

test.each([
  ['offered', 220],
  ['unconfirmed', 220],
  ['held', 165],
  ['adrift', 165],
])(
  'the host is killed while a lease is %s, and its worker never returns: queued again when all that was promised has run out, after %i s',
  async (state, seconds) => {
    const y = await yarn()
    const { work } = await leaseThatIs(state, y)
    await y.crash()
    const other = await enroll(y, 'other')
    await y.beating(seconds - 1, [other.wire])
    expect(other.wire.has('dispatch')).toBe(false)
    await y.beating(2, [other.wire])
    expect(other.wire.last('dispatch').lease.runId).toBe(work.runId)
    expect(other.wire.count('dispatch')).toBe(1)
  },
)

test.each(['offered', 'unconfirmed'])(
  'the host is killed while a lease is %s, and its worker comes back without it: dispatched anew',
  async (state) => {
    const y = await yarn()
    const { worker, work } = await leaseThatIs(state, y)
    await y.crash()
    const wire = await back(y, worker)
    expect(wire.last('dispatch').lease).toMatchObject({ runId: work.runId })
    expect(wire.last('dispatch').lease.id).not.toBe(work.id)
  },
)

test('the host is killed while a lease is held, and its worker comes back without it: lost at once', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  await y.crash()
  await back(y, worker)
  expect((await y.events(runId)).at(-1)).toBe('status queued')
})

test('a lease that was on disk when the host was killed before its dispatch: no second lease, and the run is not lost', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.beat()
  y.tracker.put(ticket('ENG-1'))
  y.beforeLanding('lease', () => y.fill())
  await y.settle()
  await y.crash()
  await y.drain()
  expect([...y.store.database.snapshots.all('lease')].length).toBeLessThanOrEqual(1)
  const wire = await back(y, worker)
  await y.pass(1)
  expect(wire.count('dispatch')).toBe(1)
  expect(y.allRuns()).toHaveLength(1)
})

test('a restored lease is authoritative over the run’s recorded status', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  const record = y.store.database.snapshots.get('run', runId)
  if (record === undefined) throw new Error('no life of the run on disk')
  // As an older record would say it: queued, and no lease known.
  const stale = { ...record, s: 'q', c: { ...(record.c as object), lease: null } }
  const { startedAt: _, ...run } = y.run(runId)
  await y.restart()
  void y.store.database.commit([
    { table: 'snapshot', kind: 'run', key: runId, record: stale },
    { table: 'run', id: runId, run: { ...run, status: 'queued' } },
  ])
  await y.settle()
  await y.crash()
  const other = await enroll(y, 'other')
  expect(other.wire.has('dispatch')).toBe(false)
  const wire = await back(y, worker, work)
  await wire.say(work.running(), work.complete())
  expect(wire.last('run-complete-ack').leaseId).toBe(work.id)
  expect(y.run(runId).status).toBe('completed')
})

test('a lease whose run is over, or no more, is no lease after a restart', async () => {
  const y = await yarn()
  const { work, runId } = await busy(y)
  await y.restart()
  void y.store.database.commit([{ table: 'snapshot', kind: 'run', key: runId, record: null }])
  void y.store.database.commit([{ table: 'run', id: runId, run: { ...y.run(runId), status: 'failed' } }])
  await y.settle()
  await y.crash()
  expect([...y.store.database.snapshots.all('lease')]).toEqual([])
  expect(y.run(runId).status).toBe('failed')
  expect(work.runId).toBe(runId)
})

test('a run whose lease is gone after a restart is queued again', async () => {
  const y = await yarn()
  const { work, runId } = await busy(y)
  await y.restart()
  void y.store.database.commit([{ table: 'snapshot', kind: 'lease', key: work.id, record: null }])
  await y.settle()
  await y.crash()
  expect(y.run(runId).status).toBe('queued')
})

test('the queue’s order survives a restart', async () => {
  const y = await yarn()
  y.tracker.put(
    ticket('low', { priority: 4 }),
    ticket('urgent', { priority: 1 }),
    ticket('high', { priority: 2 }),
  )
  await y.settle()
  await y.crash()
  const { wire } = await enroll(y, 'worker', 1)
  for (let at = 0; at < 3; at++) {
    const work = new Work(wire.last('dispatch'))
    await wire.say(work.accept(), work.complete())
  }
  const taken = wire.heard.flatMap((frame) =>
    frame.type === 'dispatch' ? [frame.job.run.ticket.identifier] : [],
  )
  expect(taken).toEqual(['urgent', 'high', 'low'])
})

test('a restart forgets no interruption', async () => {
  const y = await yarn()
  const { worker, runId } = await busy(y)
  for (let times = 2; times <= 3; times++) {
    await y.crash()
    await y.pass(220)
    const wire = await back(y, worker)
    await wire.say(new Work(wire.last('dispatch')).accept())
  }
  await y.crash()
  await y.pass(220)
  expect(y.run(runId).status).toBe('failed')
})

test('a restart makes no ticket run that has run', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.crash()
  y.tracker.touch()
  await y.pass(60)
  expect(y.allRuns()).toHaveLength(1)
})

test('a ticket that changed state while the host was away runs again', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  y.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await y.pass(1)
  await y.restart()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.allRuns()).toHaveLength(2)
})

test('a completion is acknowledged again after a restart', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  await y.crash()
  const again = await back(y, worker, work)
  await again.say(work.at(1).complete())
  expect(again.count('run-complete-ack')).toBe(2)
  expect(y.run(runId).status).toBe('completed')
})

test('late frames of a lease that ended before a restart are answered with `lease-lost`', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  await wire.beat()
  await y.crash()
  const again = await back(y, worker, work)
  await again.say(work.complete())
  expect(again.last('lease-lost').reason).toBe('this lease has ended: lost')
  expect(again.has('run-complete-ack')).toBe(false)
})

test('a cancel goes on across a restart: told again, fenced after 15 s', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  await y.done(y.desk.cancelRun(runId))
  await y.crash()
  const wire = await back(y, worker, work)
  expect(wire.last('cancel').leaseId).toBe(work.id)
  await y.pass(15)
  expect(wire.last('lease-lost').leaseId).toBe(work.id)
  expect(y.run(runId).status).toBe('cancelled')
})

test('frames that were lost with the host are recorded as lost no more than once', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.gap(1, 4))
  await y.crash()
  const again = await back(y, worker, work)
  expect(again.acknowledged(work)).toBe(4)
  await again.say(work.gap(1, 4), work.complete())
  expect((await y.events(runId)).slice(2)).toEqual(['gap 1–4', 'status completed'])
})

test('a drained worker is drained after a restart', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await y.done(y.desk.drainWorker(worker.workerId))
  await y.restart()
  y.tracker.put(ticket('ENG-1'))
  const wire = await back(y, worker)
  expect(wire.last('registered').state).toBe('draining')
  expect(wire.has('dispatch')).toBe(false)
})

test('what a worker was to be told of a discarded sandbox is told after a restart', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.complete({ sandbox: { provider: 'bwrap', id: 'box' } }))
  await wire.drop()
  await y.done(y.desk.discardRun(runId))
  await y.crash()
  expect((await back(y, worker)).last('discard').runId).toBe(runId)
})

inHand('the doors turn whoever comes then away before the desk hears of it')(
  'while the host stops nobody is let in and nothing is promised',
  async () => {
    const y = await yarn()
    const { runId } = await busy(y)
    const { desk } = y
    const given = token(y)
    const early = y.connect('early')
    await y.restart()
    expect(desk.open()).toBe(false)
    expect(await desk.cancelRun(runId)).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(desk.mintPairingToken()).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(desk.workerConnected({ address: '', send: () => true, close: () => {} })).toMatchObject({
      ok: false,
      refusal: { kind: 'unavailable' },
    })
    await early.say(pairing(given))
    expect(early.has('registered')).toBe(false)
  },
)

test('ten restarts in a row change nothing', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  y.tracker.put(ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await y.settle()
  const before = picture(y)
  for (let times = 0; times < 10; times++) {
    if (times % 2 === 0) await y.crash()
    else await y.restart()
    await y.pass(20)
  }
  expect(picture(y)).toEqual(before)
  const wire = await back(y, worker, work)
  await wire.say(work.complete())
  expect(y.run(runId).status).toBe('completed')
})

test('a run’s events are numbered without a hole or a repeat, however often the host was killed', async () => {
  const y = await yarn()
  const { worker, work, runId } = await busy(y)
  for (let times = 0; times < 5; times++) {
    const wire = await back(y, worker, work)
    const next = (wire.acknowledged(work) ?? 0) + 1
    await wire.say(work.at(next).event(`${next}`))
    y.fill()
    await wire.say(work.event('lost'))
    await y.crash()
    await y.drain()
  }
  const events = await y.done(y.desk.runEvents(runId, {}))
  expect(events.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test('what was lost with a killed host is exactly what was never acknowledged: a retry, a drain, a cancel', async () => {
  const y = await yarn()
  const { worker, runId, wire, work } = await busy(y)
  await wire.say(work.complete({ status: 'failed' }))
  y.beforeLanding('worker', () => y.fill())
  let answered = 0
  void y.desk.drainWorker(worker.workerId).then(() => answered++)
  void y.desk.retryRun(runId).then(() => answered++)
  await y.settle()
  await y.crash()
  await y.drain()
  expect(answered).toBe(0)
  expect(y.desk.fleet().workers[0]?.state).toBe('active')
  expect(y.run(runId).status).toBe('failed')
})

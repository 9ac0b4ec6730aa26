/** What people and supervisors ask of the fleet, and under which conditions they get it. */
import { expect, test } from '@jest/globals'
import {
  back,
  busy,
  configWith,
  enroll,
  heartbeat,
  offered,
  ticket,
  Work,
  type Yarn,
  yarn,
} from './host-conversation.ts'

const demand = (y: Yarn, workerId: string) => {
  const answer = y.desk.demand(workerId)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

const refused = async (asked: Promise<{ readonly ok: boolean }>) => {
  const answer = (await asked) as { ok: boolean; refusal?: { kind: string } }
  return answer.refusal?.kind
}

test('workers are listed oldest enrollment first, without any credential', async () => {
  const y = await yarn()
  const first = await enroll(y, 'first')
  await y.pass(1)
  const second = await enroll(y, 'second')
  expect(y.desk.fleet().workers.map(({ name }) => name)).toEqual(['first', 'second'])
  const text = JSON.stringify(y.desk.fleet())
  for (const { credential } of [first, second]) expect(text).not.toContain(credential)
  expect(text).not.toContain('hash')
})

test('a worker’s view: what it can do, since when it is connected, when it was seen last, and what it holds', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  await y.pass(10)
  await wire.beat(work)
  expect(y.desk.fleet().workers).toEqual([
    {
      id: worker.workerId,
      name: 'worker',
      state: 'active',
      connection: 'online',
      capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.1.0' },
      activeRuns: 1,
      enrolledAt: '2026-01-01T00:00:01.000Z',
      connectedAt: '2026-01-01T00:00:01.000Z',
      lastSeenAt: '2026-01-01T00:00:11.000Z',
      address: '127.0.0.1',
    },
  ])
})

test('offline: connectedAt and address are absent, and what it holds stays', async () => {
  const y = await yarn()
  const { wire } = await busy(y)
  await wire.drop()
  const [view] = y.desk.fleet().workers
  expect(view).toMatchObject({ connection: 'offline', activeRuns: 1, lastSeenAt: '2026-01-01T00:00:01.000Z' })
  expect(view).not.toHaveProperty('connectedAt')
  expect(view).not.toHaveProperty('address')
})

test('rename: the name is trimmed, control characters removed, capped at 60 characters', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y)
  const rename = async (name: string) =>
    (await y.done(y.desk.renameWorker(workerId, name))).workers.find(({ id }) => id === workerId)?.name
  expect(await rename('  big \u0000\u001bmachine ')).toBe('big machine')
  expect(await rename('x'.repeat(80))).toBe('x'.repeat(60))
})

test('rename: an empty result is invalid', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y, 'builder')
  for (const name of ['', '   ', '\u0000\u0007'])
    expect(await refused(y.ask(y.desk.renameWorker(workerId, name)))).toBe('invalid')
  expect(y.desk.fleet().workers[0]?.name).toBe('builder')
})

test('a new name is told to the worker when it registers again', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await y.done(y.desk.renameWorker(worker.workerId, 'big'))
  expect((await back(y, worker)).last('registered').name).toBe('big')
})

test('rename, drain, enable and revoke: unknown for an id that is not enrolled', async () => {
  const y = await yarn()
  const { desk } = y
  for (const asked of [
    desk.renameWorker('wk-0', 'x'),
    desk.drainWorker('wk-0'),
    desk.enableWorker('wk-0'),
    desk.revokeWorker('wk-0'),
  ])
    expect(await refused(y.ask(asked))).toBe('unknown')
})

async function withLocalWorker(): Promise<{ readonly y: Yarn; readonly workerId: string }> {
  const y = await yarn()
  const { workerId } = await enroll(y)
  await y.restart()
  const record = y.store.database.snapshots.get('worker', workerId)
  if (record === undefined) throw new Error('no worker on disk')
  const local = { ...record, c: { ...(record.c as object), local: true } }
  void y.store.database.commit([{ table: 'snapshot', kind: 'worker', key: workerId, record: local }])
  await y.settle()
  await y.crash()
  return { y, workerId }
}

test('rename and revoke on the local worker are invalid; drain it instead', async () => {
  const { y, workerId } = await withLocalWorker()
  expect(y.desk.fleet().workers[0]?.local).toBe(true)
  expect(await refused(y.ask(y.desk.renameWorker(workerId, 'x')))).toBe('invalid')
  expect(await refused(y.ask(y.desk.revokeWorker(workerId)))).toBe('invalid')
  expect((await y.done(y.desk.drainWorker(workerId))).workers[0]?.state).toBe('draining')
  expect((await y.done(y.desk.enableWorker(workerId))).workers[0]?.state).toBe('active')
})

test('a worker’s credential is admitted, any other pair is not, always with the same words', async () => {
  const y = await yarn()
  const a = await enroll(y, 'a')
  const b = await enroll(y, 'b')
  expect(y.desk.admitWorker(a.workerId, a.credential)).toEqual({ ok: true, value: { workerId: a.workerId } })
  expect(y.desk.admitWorker(a.workerId, a.credential).ok).toBe(true)
  const wrong = [
    y.desk.admitWorker(a.workerId, b.credential),
    y.desk.admitWorker(a.workerId, ''),
    y.desk.admitWorker('wk-0', a.credential),
    y.desk.admitWorker('', ''),
    y.desk.demand('wk-0'),
    await y.ask(y.desk.changeWorkerState('wk-0', 'draining')),
  ]
  for (const answer of wrong)
    expect(answer).toEqual({
      ok: false,
      refusal: { kind: 'forbidden', message: 'unknown worker, or a missing or wrong credential' },
    })
})

test('demand: work waiting for a worker, work being done, workers connected, and room in the fleet', async () => {
  const y = await yarn()
  const a = await enroll(y, 'a', 2)
  const b = await enroll(y, 'b', 3)
  y.tracker.put(...['1', '2', '3', '4', '5', '6', '7'].map((n) => ticket(`ENG-${n}`)))
  await y.settle()
  expect(demand(y, a.workerId)).toEqual({
    queuedRuns: 2,
    activeRuns: 5,
    connectedWorkers: 2,
    spareCapacity: 0,
    worker: { id: a.workerId, connected: true, state: 'active', activeRuns: 2, attachSessions: 0 },
  })
  expect(demand(y, b.workerId).worker).toMatchObject({ id: b.workerId, activeRuns: 3 })
})

test('demand: draining workers are excluded from spare capacity, and counted as connected', async () => {
  const y = await yarn()
  const a = await enroll(y, 'a', 2)
  const b = await enroll(y, 'b', 3)
  await y.done(y.desk.drainWorker(b.workerId))
  expect(demand(y, a.workerId)).toMatchObject({ connectedWorkers: 2, spareCapacity: 2 })
  await b.wire.drop()
  expect(demand(y, a.workerId)).toMatchObject({ connectedWorkers: 1, spareCapacity: 2 })
  await a.wire.drop()
  expect(demand(y, a.workerId)).toMatchObject({ connectedWorkers: 0, spareCapacity: 0 })
})

test('demand: a run that waits for a blocker is no reason to wake a worker', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  await wire.drop()
  y.tracker.put(ticket('ENG-1'), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await y.settle()
  expect(demand(y, workerId).queuedRuns).toBe(1)
})

test('demand: `worker` is answered even while the worker is offline (connected false, counts zero)', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  await wire.say({ ...heartbeat(y, work), attachSessions: 2 })
  expect(demand(y, worker.workerId).worker).toMatchObject({
    connected: true,
    activeRuns: 1,
    attachSessions: 2,
  })
  await wire.drop()
  expect(demand(y, worker.workerId).worker).toEqual({
    id: worker.workerId,
    connected: false,
    state: 'active',
    activeRuns: 0,
    attachSessions: 0,
  })
})

test('draining through the state route is applied before the answer: it names all work a shutdown would destroy', async () => {
  const y = await yarn()
  const { worker, wire } = await busy(y)
  y.tracker.put(ticket('ENG-2'), ticket('ENG-3'))
  const asked = y.desk.changeWorkerState(worker.workerId, 'draining')
  const answer = await y.done(asked)
  expect(answer.worker.state).toBe('draining')
  expect(answer.worker.activeRuns).toBe(wire.count('dispatch'))
  await y.pass(5)
  expect(demand(y, worker.workerId).worker.activeRuns).toBe(answer.worker.activeRuns)
  expect(wire.has('worker-state')).toBe(true)
})

test('a drain that comes while a lease is on its way to the disk: what the answer counts is what was dispatched', async () => {
  const y = await yarn()
  const { worker, wire } = await busy(y)
  let asked = Promise.resolve<unknown>(undefined)
  y.beforeLanding('lease', () => {
    asked = y.desk.changeWorkerState(worker.workerId, 'draining')
  })
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(await asked).toMatchObject({ ok: true, value: { worker: { state: 'draining', activeRuns: 1 } } })
  expect(wire.count('dispatch')).toBe(1)
})

test('a drain is on disk before it is answered', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y)
  await y.done(y.desk.changeWorkerState(workerId, 'draining'))
  await y.crash()
  expect(y.desk.fleet().workers[0]?.state).toBe('draining')
})

test('the state route restores the active state', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  await y.done(y.desk.changeWorkerState(workerId, 'draining'))
  const answer = await y.done(y.desk.changeWorkerState(workerId, 'active'))
  expect(answer.worker.state).toBe('active')
  expect(wire.heard.slice(-2).map((frame) => ('state' in frame ? frame.state : frame.type))).toEqual([
    'draining',
    'active',
  ])
})

test('activeRuns counts leases that were granted and not answered', async () => {
  const y = await yarn()
  const { worker, wire, work } = await offered(y)
  expect(demand(y, worker.workerId)).toMatchObject({ queuedRuns: 0, activeRuns: 1, spareCapacity: 1 })
  await wire.say(work.reject('busy: no'))
  expect(demand(y, worker.workerId)).toMatchObject({ queuedRuns: 1, activeRuns: 0, spareCapacity: 2 })
})

test('a worker that lowers its concurrency keeps its runs; its spare room is nothing, not less', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  const second = new Work(wire.last('dispatch'))
  await wire.say(second.accept())
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 1, version: '0.1.0' }
  await wire.say({ ...heartbeat(y, work, second), capabilities })
  expect(demand(y, worker.workerId)).toMatchObject({ activeRuns: 2, spareCapacity: 0 })
})

test('revoke answers with the fleet that is left', async () => {
  const y = await yarn()
  const a = await enroll(y, 'a')
  await y.pass(1)
  await enroll(y, 'b')
  expect((await y.done(y.desk.revokeWorker(a.workerId))).workers.map(({ name }) => name)).toEqual(['b'])
  expect(y.desk.demand(a.workerId)).toMatchObject({ ok: false, refusal: { kind: 'forbidden' } })
})

test('an enrollment does not depend on what the configuration says of the fleet later', async () => {
  const y = await yarn(configWith({ fleet: { heartbeatTimeoutSeconds: 60 } }))
  const { runId, wire } = await busy(y)
  await y.done(y.desk.changeSettings({ fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 1 } }))
  await wire.drop()
  await y.pass(179)
  expect(y.run(runId).status).toBe('preparing')
  await y.pass(1)
  expect(y.run(runId).status).toBe('queued')
})

/** The API of workers for people and supervisors, with the conditions of each answer. */
import { expect, test } from '@jest/globals'
import { WAKE_TURN_MS } from '../../actors/workers/module.ts'
import type { LocalWorkerLauncher } from '../../core/ports/machines.ts'
import {
  acceptRun,
  configWith,
  enroll,
  type HostConversation,
  heartbeat,
  offerRun,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const demand = (host: HostConversation, workerId: string) => {
  const answer = host.hostApi.demand(workerId)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

const refusalOf = async (asked: Promise<{ readonly ok: boolean }>) => {
  const answer = (await asked) as { ok: boolean; refusal?: { kind: string } }
  return answer.refusal?.kind
}

test('workers are listed oldest enrollment first, without any credential', async () => {
  const host = await startHost()
  const first = await enroll(host, 'first')
  await host.advance(1)
  const second = await enroll(host, 'second')
  expect(host.hostApi.fleet().workers.map(({ name }) => name)).toEqual(['first', 'second'])
  const text = JSON.stringify(host.hostApi.fleet())
  for (const { credential } of [first, second]) expect(text).not.toContain(credential)
  expect(text).not.toContain('hash')
})

test('a worker’s view: what it can do, since when it is connected, when it was seen last, and what it holds', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await host.advance(10)
  await connection.sendHeartbeat(work)
  expect(host.hostApi.fleet().workers).toEqual([
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
  const host = await startHost()
  const { connection } = await acceptRun(host)
  await connection.drop()
  const [view] = host.hostApi.fleet().workers
  expect(view).toMatchObject({ connection: 'offline', activeRuns: 1, lastSeenAt: '2026-01-01T00:00:01.000Z' })
  expect(view).not.toHaveProperty('connectedAt')
  expect(view).not.toHaveProperty('address')
})

test('rename: the name is trimmed, control characters removed, capped at 60 characters', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  const rename = async (name: string) =>
    (await host.succeeded(host.hostApi.renameWorker(workerId, name))).workers.find(
      ({ id }) => id === workerId,
    )?.name
  expect(await rename('  big \u0000\u001bmachine ')).toBe('big machine')
  expect(await rename('x'.repeat(80))).toBe('x'.repeat(60))
})

test('rename: an empty result is invalid', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host, 'builder')
  for (const name of ['', '   ', '\u0000\u0007'])
    expect(await refusalOf(host.settled(host.hostApi.renameWorker(workerId, name)))).toBe('invalid')
  expect(host.hostApi.fleet().workers[0]?.name).toBe('builder')
})

test('a worker receives its new name when it registers again', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.renameWorker(worker.workerId, 'big'))
  expect((await reconnect(host, worker)).lastReceived('registered').name).toBe('big')
})

test('rename, drain, enable and revoke: unknown for an id that is not enrolled', async () => {
  const host = await startHost()
  const { hostApi } = host
  for (const asked of [
    hostApi.renameWorker('wk-0', 'x'),
    hostApi.drainWorker('wk-0'),
    hostApi.enableWorker('wk-0'),
    hostApi.revokeWorker('wk-0'),
  ])
    expect(await refusalOf(host.settled(asked))).toBe('unknown')
})

/** The process never begins, so the test speaks for the worker. */
const silentLauncher: LocalWorkerLauncher = { start: () => new Promise(() => {}) }

async function withLocalWorker(): Promise<{ readonly host: HostConversation; readonly workerId: string }> {
  const host = await startHost()
  const { workerId } = await enroll(host)
  await host.restart()
  const record = host.store.database.snapshots.get('worker', workerId)
  if (record === undefined) throw new Error('no worker on disk')
  const local = { ...record, c: { ...(record.c as object), local: true } }
  void host.store.database.commit([{ table: 'snapshot', kind: 'worker', key: workerId, record: local }])
  await host.settle()
  host.localWorker = silentLauncher
  await host.crash()
  return { host, workerId }
}

test('rename and revoke on the local worker are invalid; drain it instead', async () => {
  const { host, workerId } = await withLocalWorker()
  expect(host.hostApi.fleet().workers[0]?.local).toBe(true)
  expect(await refusalOf(host.settled(host.hostApi.renameWorker(workerId, 'x')))).toBe('invalid')
  expect(await refusalOf(host.settled(host.hostApi.revokeWorker(workerId)))).toBe('invalid')
  expect((await host.succeeded(host.hostApi.drainWorker(workerId))).workers[0]?.state).toBe('draining')
  expect((await host.succeeded(host.hostApi.enableWorker(workerId))).workers[0]?.state).toBe('active')
})

test('the local worker is an ordinary one while its host runs no worker itself', async () => {
  const { host, workerId } = await withLocalWorker()
  host.localWorker = undefined
  await host.restart()
  expect(host.hostApi.fleet().workers).toMatchObject([{ id: workerId }])
  expect(host.hostApi.fleet().workers[0]?.local).toBeUndefined()
  const renamed = await host.succeeded(host.hostApi.renameWorker(workerId, 'forge'))
  expect(renamed.workers[0]?.name).toBe('forge')
  expect((await host.succeeded(host.hostApi.revokeWorker(workerId))).workers).toEqual([])
})

test('a worker’s credential is admitted, any other pair is not, always with the same message', async () => {
  const host = await startHost()
  const a = await enroll(host, 'a')
  const b = await enroll(host, 'b')
  expect(host.hostApi.admitWorker(a.workerId, a.credential)).toEqual({
    ok: true,
    value: { workerId: a.workerId },
  })
  expect(host.hostApi.admitWorker(a.workerId, a.credential).ok).toBe(true)
  const wrong = [
    host.hostApi.admitWorker(a.workerId, b.credential),
    host.hostApi.admitWorker(a.workerId, ''),
    host.hostApi.admitWorker(a.workerId, a.credential.slice(0, -1)),
    host.hostApi.admitWorker(a.workerId, `${a.credential}a`),
    // As many characters, of which the last is not written or shares its lower byte with the right one.
    host.hostApi.admitWorker(a.workerId, `${a.credential.slice(0, -1)}é`),
    host.hostApi.admitWorker(
      a.workerId,
      a.credential.slice(0, -1) +
        String.fromCharCode(0x100 + a.credential.charCodeAt(a.credential.length - 1)),
    ),
    host.hostApi.admitWorker('wk-0', a.credential),
    host.hostApi.admitWorker('', ''),
    host.hostApi.demand('wk-0'),
    await host.settled(host.hostApi.changeWorkerState('wk-0', 'draining')),
  ]
  // One message for all, so that an answer does not tell which part was wrong.
  const [first] = wrong
  expect(first).toMatchObject({ ok: false, refusal: { kind: 'forbidden' } })
  for (const answer of wrong) expect(answer).toEqual(first)
})

test('demand: work waiting for a worker, work being done, workers connected, and room in the fleet', async () => {
  const host = await startHost()
  const a = await enroll(host, 'a', 2)
  const b = await enroll(host, 'b', 3)
  host.tracker.put(...['1', '2', '3', '4', '5', '6', '7'].map((n) => ticket(`ENG-${n}`)))
  await host.settle()
  expect(demand(host, a.workerId)).toEqual({
    queuedRuns: 2,
    wanted: 2,
    activeRuns: 5,
    connectedWorkers: 2,
    spareCapacity: 0,
    worker: { id: a.workerId, connected: true, state: 'active', activeRuns: 2, attachSessions: 0 },
  })
  expect(demand(host, b.workerId).worker).toMatchObject({ id: b.workerId, activeRuns: 3 })
})

test('demand: draining workers are excluded from spare capacity, and counted as connected', async () => {
  const host = await startHost()
  const a = await enroll(host, 'a', 2)
  const b = await enroll(host, 'b', 3)
  await host.succeeded(host.hostApi.drainWorker(b.workerId))
  expect(demand(host, a.workerId)).toMatchObject({ connectedWorkers: 2, spareCapacity: 2 })
  await b.connection.drop()
  expect(demand(host, a.workerId)).toMatchObject({ connectedWorkers: 1, spareCapacity: 2 })
  await a.connection.drop()
  expect(demand(host, a.workerId)).toMatchObject({ connectedWorkers: 0, spareCapacity: 0 })
})

test('demand: a run that waits for a blocker does not count as demand', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  await connection.drop()
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  expect(demand(host, workerId).queuedRuns).toBe(1)
})

test('demand: `wanted` counts what any machine could take, is 0 while all are drained, and not held by a full one', async () => {
  const host = await startHost()
  const a = await enroll(host, 'a', 1)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'), ticket('ENG-3', { blockedBy: ['ENG-2'] }))
  await host.settle()
  expect(demand(host, a.workerId)).toMatchObject({ activeRuns: 1, wanted: 1 })
  await host.succeeded(host.hostApi.changeWorkerState(a.workerId, 'draining', 'supervisor'))
  expect(demand(host, a.workerId).wanted).toBe(1)
  await host.succeeded(host.hostApi.drainWorker(a.workerId))
  expect(demand(host, a.workerId)).toMatchObject({ queuedRuns: 1, wanted: 0 })
  const b = await enroll(host, 'b', 1)
  expect(demand(host, b.workerId)).toMatchObject({ activeRuns: 2, wanted: 0 })
  host.tracker.put(ticket('ENG-4'))
  await host.settle()
  expect(demand(host, b.workerId).wanted).toBe(1)
  await b.connection.drop()
  await host.succeeded(host.hostApi.drainWorker(b.workerId))
  expect(demand(host, b.workerId)).toMatchObject({ queuedRuns: 1, wanted: 0 })
  await host.succeeded(host.hostApi.enableWorker(b.workerId))
  expect(demand(host, b.workerId).wanted).toBe(1)
})

test('demand: of the workers that sleep, only as many are told of queued runs as those need', async () => {
  const host = await startHost()
  const [a, b, c] = [await enroll(host, 'a'), await enroll(host, 'b'), await enroll(host, 'c')]
  for (const { connection } of [a, b, c]) await connection.drop()
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  const promised = ({ workerId }: { readonly workerId: string }) =>
    demand(host, workerId).worker?.promisedRuns ?? 0
  expect([a, b, c, a].map(promised)).toEqual([0, 2, 2, 0])
  host.tracker.put(ticket('ENG-3'))
  await host.settle()
  expect([a, b, c, b].map(promised)).toEqual([0, 2, 3, 0])
  // Neither comes, so the third one is told of all.
  await host.clock.advance(WAKE_TURN_MS)
  expect([c, a, b].map(promised)).toEqual([0, 0, 0])
  expect(demand(host, c.workerId).wanted).toBe(3)
})

test('demand: a drained worker that sleeps keeps no other asleep', async () => {
  const host = await startHost()
  const [a, b] = [await enroll(host, 'a', 1), await enroll(host, 'b', 1)]
  for (const { connection } of [a, b]) await connection.drop()
  await host.succeeded(host.hostApi.drainWorker(a.workerId))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect([a, b].map(({ workerId }) => demand(host, workerId).worker?.promisedRuns)).toEqual([
    undefined,
    undefined,
  ])
})

test('demand: `worker` is answered even while the worker is offline (connected false, counts zero)', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await connection.send({ ...heartbeat(host, work), attachSessions: 2 })
  expect(demand(host, worker.workerId).worker).toMatchObject({
    connected: true,
    activeRuns: 1,
    attachSessions: 2,
  })
  await connection.drop()
  expect(demand(host, worker.workerId).worker).toEqual({
    id: worker.workerId,
    connected: false,
    state: 'active',
    activeRuns: 0,
    attachSessions: 0,
  })
})

test('draining through the state route is applied before the answer: it names all work a shutdown would destroy', async () => {
  const host = await startHost()
  const { worker, connection } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2'), ticket('ENG-3'))
  const asked = host.hostApi.changeWorkerState(worker.workerId, 'draining')
  const answer = await host.succeeded(asked)
  expect(answer.worker?.state).toBe('draining')
  expect(answer.worker?.activeRuns).toBe(connection.countReceived('dispatch'))
  await host.advance(5)
  expect(demand(host, worker.workerId).worker?.activeRuns).toBe(answer.worker?.activeRuns)
  expect(connection.hasReceived('worker-state')).toBe(true)
})

test('a drain while a lease is being committed: the answer counts exactly the dispatched leases', async () => {
  const host = await startHost()
  const { worker, connection } = await acceptRun(host)
  let asked = Promise.resolve<unknown>(undefined)
  host.beforeCommit('lease', () => {
    asked = host.hostApi.changeWorkerState(worker.workerId, 'draining')
  })
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(await asked).toMatchObject({ ok: true, value: { worker: { state: 'draining', activeRuns: 1 } } })
  expect(connection.countReceived('dispatch')).toBe(1)
})

test('a drain is on disk before it is answered', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  await host.succeeded(host.hostApi.changeWorkerState(workerId, 'draining'))
  await host.crash()
  expect(host.hostApi.fleet().workers[0]?.state).toBe('draining')
})

test('the state route restores the active state', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  await host.succeeded(host.hostApi.changeWorkerState(workerId, 'draining'))
  const answer = await host.succeeded(host.hostApi.changeWorkerState(workerId, 'active'))
  expect(answer.worker?.state).toBe('active')
  expect(connection.received.slice(-2).map((frame) => ('state' in frame ? frame.state : frame.type))).toEqual(
    ['draining', 'active'],
  )
})

test('a supervisor ends its own drain, and never the drain of an operator or of a program on the machine', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  const change = async (state: 'draining' | 'active', by?: 'supervisor') => {
    const { worker } = await host.succeeded(host.hostApi.changeWorkerState(workerId, state, by))
    return [worker?.state, ...(worker?.drainedBy ?? [])].join(' ')
  }
  expect(await change('draining', 'supervisor')).toBe('draining supervisor')
  await host.succeeded(host.hostApi.drainWorker(workerId))
  expect(await change('active', 'supervisor')).toBe('draining operator')
  expect(await change('draining')).toBe('draining operator worker')
  await host.restart()
  expect(await change('draining', 'supervisor')).toBe('draining operator worker supervisor')
  expect(host.hostApi.fleet().workers[0]?.drainedBy).toEqual(['operator', 'worker', 'supervisor'])
  await host.succeeded(host.hostApi.enableWorker(workerId))
  expect(await change('active', 'supervisor')).toBe('active')
  expect(await change('draining', 'supervisor')).toBe('draining supervisor')
  expect(await change('active', 'supervisor')).toBe('active')
  expect(await change('draining')).toBe('draining worker')
  expect(await change('active')).toBe('active')
})

test('activeRuns counts leases that were granted and not answered', async () => {
  const host = await startHost()
  const { worker, connection, work } = await offerRun(host)
  expect(demand(host, worker.workerId)).toMatchObject({ queuedRuns: 0, activeRuns: 1, spareCapacity: 1 })
  await connection.send(work.reject('busy: no'))
  expect(demand(host, worker.workerId)).toMatchObject({ queuedRuns: 1, activeRuns: 0, spareCapacity: 2 })
})

test('a worker that takes one run gets another after a refusal, and none after its first accepted one', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'), ticket('ENG-3'))
  const { connection, workerId } = await enroll(host, 'job', 1, { once: true })
  await connection.send(new Work(connection.lastReceived('dispatch')).reject('sandbox: no such branch'))
  await host.advanceWithHeartbeats(31, [connection])
  expect(connection.countReceived('dispatch')).toBe(2)
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.complete())
  await host.advanceWithHeartbeats(120, [connection])
  expect(connection.countReceived('dispatch')).toBe(2)
  expect(demand(host, workerId)).toMatchObject({ queuedRuns: 2, wanted: 2, activeRuns: 0, spareCapacity: 0 })
})

test('a worker that lowers its concurrency keeps its runs; its spare capacity is zero, not negative', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  const second = new Work(connection.lastReceived('dispatch'))
  await connection.send(second.accept())
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 1, version: '0.1.0' }
  await connection.send({ ...heartbeat(host, work, second), capabilities })
  expect(demand(host, worker.workerId)).toMatchObject({ activeRuns: 2, spareCapacity: 0 })
})

test('revoke answers with the fleet that is left', async () => {
  const host = await startHost()
  const a = await enroll(host, 'a')
  await host.advance(1)
  await enroll(host, 'b')
  expect(
    (await host.succeeded(host.hostApi.revokeWorker(a.workerId))).workers.map(({ name }) => name),
  ).toEqual(['b'])
  expect(host.hostApi.demand(a.workerId)).toMatchObject({ ok: false, refusal: { kind: 'forbidden' } })
})

test('an enrollment does not depend on later fleet settings', async () => {
  const host = await startHost(configWith({ fleet: { heartbeatTimeoutSeconds: 60 } }))
  const { runId, connection } = await acceptRun(host)
  await host.succeeded(
    host.hostApi.changeSettings({ fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 1 } }),
  )
  await connection.drop()
  await host.advance(179)
  expect(host.run(runId).status).toBe('preparing')
  await host.advance(1)
  expect(host.run(runId).status).toBe('queued')
})

/** The host restarts: the queue and the leases are as they were, and nothing is done twice. */
import { describe, expect, test } from '@jest/globals'
import { WORKER_LAST_SEEN_LAG_MS } from '../../actors/workers/heartbeats.ts'
import { FLEET_REASONS, LEASE_LOST } from '../../core/fleet/placement.ts'
import {
  acceptRun,
  capabilities,
  enroll,
  type HostConversation,
  inMemoryOnly,
  type LeasedScriptedWorker,
  offerRun,
  pairingToken,
  reconnect,
  registerWithToken,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const ends = [
  ['stops', (host: HostConversation) => host.restart()],
  ['is killed', (host: HostConversation) => host.crash()],
] as const

/** Runs as people see them, and the leases as they are on disk. */
const stateOf = (host: HostConversation) => ({
  runs: host.allRuns().map((run) => ({ ...run, queueReason: undefined })),
  leases: [...host.store.database.snapshots.all('lease')].map(([id]) => id),
})

/** Brings a lease into this state. */
async function leaseInState(state: string, host: HostConversation): Promise<LeasedScriptedWorker> {
  if (state === 'offered') return offerRun(host)
  const given = state === 'unconfirmed' ? await offerRun(host) : await acceptRun(host)
  const { connection, work, runId } = given
  if (state === 'held' || state === 'adrift') await connection.send(work.running(), work.event('one'))
  if (state === 'unconfirmed' || state === 'adrift') await connection.drop()
  if (state === 'cancelling') await host.succeeded(host.hostApi.cancelRun(runId))
  return given
}

const states = ['offered', 'unconfirmed', 'held', 'adrift', 'cancelling']

for (const [how, end] of ends)
  test.each(states)(`the host ${how} while a lease is %s: queue and leases are equal`, async (state) => {
    const host = await startHost()
    await leaseInState(state, host)
    host.tracker.put(
      ticket('ENG-2', { blockedBy: ['ENG-1'] }),
      ticket('ENG-3', { priority: 1, blockedBy: ['ENG-1'] }),
    )
    await host.settle()
    const before = stateOf(host)
    await end(host)
    expect(stateOf(host)).toEqual(before)
    expect(before.leases).toHaveLength(1)
  })

for (const [how, end] of ends)
  test.each(states)(
    `the host ${how} while a lease is %s: its worker comes back with it and finishes the run, once`,
    async (state) => {
      const host = await startHost()
      const { worker, work } = await leaseInState(state, host)
      await end(host)
      const second = await enroll(host, 'other')
      expect(second.connection.hasReceived('dispatch')).toBe(false)
      const connection = await reconnect(host, worker, work)
      await connection.send(
        work.accept(),
        work.event('last'),
        work.complete({ status: state === 'cancelling' ? 'cancelled' : 'completed' }),
      )
      expect(connection.lastReceived('run-complete-ack').leaseId).toBe(work.id)
      expect(host.run(work.runId).status).toBe(state === 'cancelling' ? 'cancelled' : 'completed')
      expect(host.allRuns()).toHaveLength(1)
      expect(second.connection.hasReceived('dispatch')).toBe(false)
      expect([...host.store.database.snapshots.all('lease')]).toEqual([])
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
    const host = await startHost()
    const { work } = await leaseInState(state, host)
    await host.crash()
    const second = await enroll(host, 'other')
    await host.advanceWithHeartbeats(seconds - 1, [second.connection])
    expect(second.connection.hasReceived('dispatch')).toBe(false)
    await host.advanceWithHeartbeats(2, [second.connection])
    expect(second.connection.lastReceived('dispatch').lease.runId).toBe(work.runId)
    expect(second.connection.countReceived('dispatch')).toBe(1)
  },
)

test.each(['offered', 'unconfirmed'])(
  'the host is killed while a lease is %s, and its worker comes back without it: dispatched anew',
  async (state) => {
    const host = await startHost()
    const { worker, work } = await leaseInState(state, host)
    await host.crash()
    const connection = await reconnect(host, worker)
    expect(connection.lastReceived('dispatch').lease).toMatchObject({ runId: work.runId })
    expect(connection.lastReceived('dispatch').lease.id).not.toBe(work.id)
  },
)

test('the host is killed while a lease is held, and its worker reconnects without it: lost at once', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  await host.crash()
  await reconnect(host, worker)
  expect((await host.events(runId)).at(-1)).toBe('status queued')
})

test('a lease that was on disk when the host was killed before its dispatch: no second lease, and the run is not lost', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.sendHeartbeat()
  host.tracker.put(ticket('ENG-1'))
  host.beforeCommit('lease', () => host.fillDisk())
  await host.settle()
  await host.crash()
  await host.freeDisk()
  expect([...host.store.database.snapshots.all('lease')].length).toBeLessThanOrEqual(1)
  const connection = await reconnect(host, worker)
  await host.advance(1)
  expect(connection.countReceived('dispatch')).toBe(1)
  expect(host.allRuns()).toHaveLength(1)
})

/** The host was killed, and an older record of the run says that it is queued and has no lease. */
async function crashForgettingLease(state: string) {
  const host = await startHost()
  const leased = await leaseInState(state, host)
  const { runId } = leased
  const record = host.store.database.snapshots.get('run', runId)
  if (record === undefined) throw new Error('no snapshot of the run on disk')
  const stale = { ...record, s: 'q', c: { ...(record.c as object), lease: null } }
  const { startedAt: _, ...run } = host.run(runId)
  await host.restart()
  void host.store.database.commit([
    { table: 'snapshot', kind: 'run', key: runId, record: stale },
    { table: 'run', id: runId, run: { ...run, status: 'queued' } },
  ])
  await host.settle()
  await host.crash()
  return { host, ...leased }
}

const unfinished = ['offered', 'unconfirmed', 'held', 'adrift']

test.each(unfinished)(
  'a restored lease that was %s is authoritative over the run’s recorded status',
  async (state) => {
    const { host, worker, work, runId } = await crashForgettingLease(state)
    const second = await enroll(host, 'other')
    expect(second.connection.hasReceived('dispatch')).toBe(false)
    const connection = await reconnect(host, worker, work)
    await connection.send(work.accept(), work.running(), work.complete())
    expect(connection.lastReceived('run-complete-ack').leaseId).toBe(work.id)
    expect(host.run(runId).status).toBe('completed')
  },
)

test.each(unfinished)('a run that is cancelled ends its restored lease, which was %s', async (state) => {
  const { host, worker, work, runId } = await crashForgettingLease(state)
  await host.succeeded(host.hostApi.cancelRun(runId))
  const connection = await reconnect(host, worker, work)
  expect(connection.hasReceived('cancel') || connection.hasReceived('lease-lost')).toBe(true)
  await connection.send(work.accept(), work.complete({ status: 'cancelled' }))
  expect(host.run(runId).status).toBe('cancelled')
  expect([...host.store.database.snapshots.all('lease')]).toEqual([])
})

test('a lease whose run has ended or was deleted is dropped at a restart', async () => {
  const host = await startHost()
  const { work, runId } = await acceptRun(host)
  await host.restart()
  void host.store.database.commit([{ table: 'snapshot', kind: 'run', key: runId, record: null }])
  void host.store.database.commit([
    { table: 'run', id: runId, run: { ...host.run(runId), status: 'failed' } },
  ])
  await host.settle()
  await host.crash()
  expect([...host.store.database.snapshots.all('lease')]).toEqual([])
  expect(host.run(runId).status).toBe('failed')
  expect(work.runId).toBe(runId)
})

describe('a run whose lease is gone after a restart', () => {
  async function crashWithoutLease(state: string) {
    const host = await startHost()
    const { work, runId } = await leaseInState(state, host)
    await host.restart()
    void host.store.database.commit([{ table: 'snapshot', kind: 'lease', key: work.id, record: null }])
    await host.settle()
    await host.crash()
    return { host, runId }
  }

  test.each(unfinished)(
    'which was %s, begins again when all that was promised has run out',
    async (state) => {
      const { host, runId } = await crashWithoutLease(state)
      const { connection } = await enroll(host, 'other')
      await host.advanceWithHeartbeats(219, [connection])
      expect(connection.hasReceived('dispatch')).toBe(false)
      await host.advanceWithHeartbeats(2, [connection])
      expect(connection.lastReceived('dispatch').lease.runId).toBe(runId)
    },
  )

  test.each(unfinished)('which was %s, says meanwhile what it waits for', async (state) => {
    const { host, runId } = await crashWithoutLease(state)
    const reason = async () => {
      const { queueReason, waitReason } = await host.succeeded(Promise.resolve(host.hostApi.run(runId)))
      return queueReason ?? waitReason
    }
    expect(await reason()).toBe(LEASE_LOST.reason)
    expect(host.hostApi.placement(runId)).toMatchObject({ value: { reason: LEASE_LOST.reason } })
    await host.advance(220)
    expect(await reason()).toContain(FLEET_REASONS.away)
  })

  test.each(unfinished)('which was %s, can be cancelled meanwhile', async (state) => {
    const { host, runId } = await crashWithoutLease(state)
    await host.succeeded(host.hostApi.cancelRun(runId))
    expect(host.run(runId).status).toBe('cancelled')
    await host.advance(220)
    expect(host.run(runId).status).toBe('cancelled')
  })
})

test('the queue’s order survives a restart', async () => {
  const host = await startHost()
  host.tracker.put(
    ticket('low', { priority: 4 }),
    ticket('urgent', { priority: 1 }),
    ticket('high', { priority: 2 }),
  )
  await host.settle()
  await host.crash()
  const { connection } = await enroll(host, 'worker', 1)
  for (let at = 0; at < 3; at++) {
    const work = new Work(connection.lastReceived('dispatch'))
    await connection.send(work.accept(), work.complete())
  }
  const taken = connection.received.flatMap((frame) =>
    frame.type === 'dispatch' ? [frame.job.run.ticket.identifier] : [],
  )
  expect(taken).toEqual(['urgent', 'high', 'low'])
})

test('a restart forgets no interruption', async () => {
  const host = await startHost()
  const { worker, runId } = await acceptRun(host)
  for (let times = 2; times <= 3; times++) {
    await host.crash()
    await host.advance(220)
    const connection = await reconnect(host, worker)
    await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  }
  await host.crash()
  await host.advance(220)
  expect(host.run(runId).status).toBe('failed')
})

test('a restart queues no ticket that has already run', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete())
  await host.crash()
  host.tracker.announceChange()
  await host.advance(60)
  expect(host.allRuns()).toHaveLength(1)
})

test('a ticket that changed state while the host was down runs again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete())
  host.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await host.advance(1)
  await host.restart()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.allRuns()).toHaveLength(2)
})

test('a completion is acknowledged again after a restart', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete())
  await host.crash()
  const again = await reconnect(host, worker, work)
  await again.send(work.at(1).complete())
  expect(again.countReceived('run-complete-ack')).toBe(2)
  expect(host.run(runId).status).toBe('completed')
})

test('a late frame of a lease that completed before a restart is answered with `run-complete-ack`', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.event('one'), work.complete())
  await host.crash()
  const again = await reconnect(host, worker)
  await again.send(work.at(1).event('one'))
  expect(again.countReceived('run-complete-ack')).toBe(1)
  expect(again.hasReceived('lease-lost')).toBe(false)
  expect(host.run(runId).status).toBe('completed')
})

test('late frames of a lease that ended otherwise before a restart are answered with `lease-lost`', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await connection.sendHeartbeat()
  await host.crash()
  const again = await reconnect(host, worker, work)
  await again.send(work.complete())
  expect(again.lastReceived('lease-lost').reason).toBe('this lease has ended: lost')
  expect(again.hasReceived('run-complete-ack')).toBe(false)
})

test('a cancel continues after a restart: sent again, fenced after 15 s', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.crash()
  const connection = await reconnect(host, worker, work)
  expect(connection.lastReceived('cancel').leaseId).toBe(work.id)
  await host.advance(15)
  expect(connection.lastReceived('lease-lost').leaseId).toBe(work.id)
  expect(host.run(runId).status).toBe('cancelled')
})

test('frames that were lost with the host are recorded as lost no more than once', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.gap(1, 4))
  await host.crash()
  const again = await reconnect(host, worker, work)
  expect(again.acknowledged(work)).toBe(4)
  await again.send(work.gap(1, 4), work.complete())
  expect((await host.events(runId)).slice(2)).toEqual(['gap 1–4', 'status completed'])
})

test('a drained worker is drained after a restart', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  await host.restart()
  host.tracker.put(ticket('ENG-1'))
  const connection = await reconnect(host, worker)
  expect(connection.lastReceived('registered').state).toBe('draining')
  expect(connection.hasReceived('dispatch')).toBe(false)
})

describe('after a restart a worker was last seen', () => {
  const lastSeenOf = (host: HostConversation) => host.hostApi.fleet().workers[0]?.lastSeenAt

  test('at its last heartbeat, when the host had stopped in order', async () => {
    const host = await startHost()
    const { connection } = await enroll(host)
    await host.advanceWithHeartbeats(100, [connection])
    await host.restart()
    expect(lastSeenOf(host)).toBe('2026-01-01T00:01:41.000Z')
    expect(host.hostApi.fleet().workers[0]?.capabilities).toMatchObject(capabilities)
  })

  test('at its last heartbeat, when its connection had ended before', async () => {
    const host = await startHost()
    const { connection } = await enroll(host)
    await host.advanceWithHeartbeats(100, [connection])
    await host.advance(20)
    await connection.drop()
    await host.crash()
    expect(lastSeenOf(host)).toBe('2026-01-01T00:01:41.000Z')
  })

  test('at most five minutes too early, when the host was killed', async () => {
    const host = await startHost()
    const { connection } = await enroll(host)
    await host.advanceWithHeartbeats(3_600, [connection])
    const seenAt = Date.parse(lastSeenOf(host) ?? '')
    await host.crash()
    const lag = seenAt - Date.parse(lastSeenOf(host) ?? '')
    expect(lag).toBeLessThanOrEqual(WORKER_LAST_SEEN_LAG_MS)
  })
})

test('a worker at rest has its last heartbeat stored a few times an hour', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  await host.advanceWithHeartbeats(60, [connection])
  let stored = 0
  const count = () =>
    host.beforeCommit('worker', () => {
      stored += 1
      queueMicrotask(count)
    })
  count()
  await host.advanceWithHeartbeats(3_600, [connection])
  expect(stored).toBeGreaterThanOrEqual(10)
  expect(stored).toBeLessThanOrEqual(12)
})

test('an undelivered discard is sent after a restart', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ sandbox: { provider: 'bwrap', id: 'box' } }))
  await connection.drop()
  await host.succeeded(host.hostApi.discardRun(runId))
  await host.crash()
  expect((await reconnect(host, worker)).lastReceived('discard').runId).toBe(runId)
})

inMemoryOnly('the listener refuses new connections before the host API sees them')(
  'while the host stops nobody is let in and nothing is promised',
  async () => {
    const host = await startHost()
    const { runId } = await acceptRun(host)
    const { hostApi } = host
    const given = pairingToken(host)
    const early = host.connect('early')
    await host.restart()
    expect(hostApi.isOpen()).toBe(false)
    expect(await hostApi.cancelRun(runId)).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(hostApi.mintPairingToken()).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(hostApi.connectWorker({ address: '', send: () => true, close: () => {} })).toMatchObject({
      ok: false,
      refusal: { kind: 'unavailable' },
    })
    await early.send(registerWithToken(given))
    expect(early.hasReceived('registered')).toBe(false)
  },
)

test('ten restarts in a row change nothing', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  const before = stateOf(host)
  for (let times = 0; times < 10; times++) {
    if (times % 2 === 0) await host.crash()
    else await host.restart()
    await host.advance(20)
  }
  expect(stateOf(host)).toEqual(before)
  const connection = await reconnect(host, worker, work)
  await connection.send(work.complete())
  expect(host.run(runId).status).toBe('completed')
})

test('a run’s events are numbered without a hole or a repeat, however often the host was killed', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  for (let times = 0; times < 5; times++) {
    const connection = await reconnect(host, worker, work)
    const next = (connection.acknowledged(work) ?? 0) + 1
    await connection.send(work.at(next).event(`${next}`))
    host.fillDisk()
    await connection.send(work.event('lost'))
    await host.crash()
    await host.freeDisk()
  }
  const events = await host.readEvents(runId)
  expect(events.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test('what was lost with a killed host is exactly what was never acknowledged: a retry, a drain, a cancel', async () => {
  const host = await startHost()
  const { worker, runId, connection, work } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed' }))
  host.beforeCommit('worker', () => host.fillDisk())
  let answered = 0
  void host.hostApi.drainWorker(worker.workerId).then(() => answered++)
  void host.hostApi.retryRun(runId).then(() => answered++)
  await host.settle()
  await host.crash()
  await host.freeDisk()
  expect(answered).toBe(0)
  expect(host.hostApi.fleet().workers[0]?.state).toBe('active')
  expect(host.run(runId).status).toBe('failed')
})

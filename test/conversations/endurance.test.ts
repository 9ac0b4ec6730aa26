/** Invariants under hostile clients, crashes at an unlucky moment, and clock changes. */
import { afterEach, expect, test } from '@jest/globals'
import { EndedLeases } from '../../actors/leases/ended-leases.ts'
import { runMachine } from '../../actors/runs/run.machine.ts'
import { workerMachine } from '../../actors/workers/worker.machine.ts'
import type { Result } from '../../core/result.ts'
import type { Run } from '../../protocol/run.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { createMemoryStore } from '../support/memory-store.ts'
import {
  acceptRun,
  configWith,
  enroll,
  heartbeat,
  inMemoryOnly,
  offerRun,
  registerWithCredential,
  startHost,
  ticket,
} from './host-conversation.ts'
import { resumeAndRelease, retainRun, withAgent } from './terminal-conversation.ts'

inMemoryOnly('a frame does not cross a socket within one tick')(
  'a sandbox that is discarded in the moment of the run’s end stays discarded',
  async () => {
    const host = await startHost()
    const { connection, work, runId } = await acceptRun(host)
    // Another commit is under way, so the end and the discard go into the next one.
    const discarded = new Promise<Result<Run>>((resolve) => {
      host.beforeCommit('lease', () => {
        void connection.send(work.complete({ sandbox: { id: 'sb-1' } }))
        resolve(host.hostApi.discardRun(runId))
      })
    })
    host.tracker.put(ticket('ENG-2'))
    await host.settle()
    expect((await host.succeeded(discarded)).sandbox.id).toBeUndefined()
    expect(host.run(runId).sandbox.id).toBeUndefined()
  },
)

/** An action that throws, as a bug in a machine would. */
const actionsOf = (machine: { readonly implementations: unknown }) =>
  (machine.implementations as { readonly actions: Record<string, unknown> }).actions
const { cancel } = actionsOf(runMachine)
const { rename } = actionsOf(workerMachine)
afterEach(() => {
  actionsOf(runMachine).cancel = cancel
  actionsOf(workerMachine).rename = rename
})
const throws = () => {
  throw new Error('a bug')
}

test('a worker whose actor was given up may reconnect, and is never refused as unknown', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.sendHeartbeat()
  await host.withoutTranscript(async () => {
    actionsOf(workerMachine).rename = throws
    for (let times = 0; times < 4; times++) {
      void host.hostApi.renameWorker(worker.workerId, 'another')
      await host.advance(5)
      if (worker.connection.closed === undefined) await worker.connection.sendHeartbeat()
    }
    actionsOf(workerMachine).rename = rename
  })
  expect(host.hostApi.fleet().workers).toEqual([])
  expect(worker.connection.closed?.code).toBe(1013)
  const again = host.connect()
  await again.send(registerWithCredential(worker))
  expect([again.received, again.closed?.code]).toEqual([[], 1013])
  await host.restart()
  const later = host.connect()
  await later.send(registerWithCredential(worker))
  expect(later.hasReceived('registered')).toBe(true)
})

test('a run whose actor was given up causes no second run before it is recorded as failed', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const { id } = host.runOf('ENG-1')
  let onPolled: () => void = () => {}
  const { tracker } = host
  const listTickets = tracker.listTickets.bind(tracker)
  tracker.listTickets = async () => {
    await new Promise<void>((resolve) => {
      onPolled = resolve
    })
    return listTickets()
  }
  await host.withoutTranscript(async () => {
    actionsOf(runMachine).cancel = throws
    void host.hostApi.cancelRun(id)
    await host.advance(5)
    tracker.announceChange()
    await host.settle()
    host.beforeCommit('run', onPolled)
    void host.hostApi.cancelRun(id)
    await host.settle()
  })
  expect(host.allRuns().map((run) => [run.id, run.status])).toEqual([[id, 'failed']])
})

test('a queued run that recovers from a crash gets one lease, not one after the other', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  let crashes = 0
  actionsOf(runMachine).cancel = () => {
    crashes += 1
    throws()
  }
  const log = host.log.error
  host.log.error = () => {}
  void host.hostApi.cancelRun(host.runOf('ENG-1').id)
  await host.settle()
  const worker = await enroll(host, 'worker', 4)
  await enroll(host, 'other', 4)
  await host.settle()
  host.log.error = log
  expect(crashes).toBe(1)
  expect(worker.connection.countReceived('dispatch')).toBeLessThanOrEqual(1)
  expect(host.hostApi.fleet().workers.reduce((sum, { activeRuns }) => sum + activeRuns, 0)).toBe(1)
  expect(host.transcript.filter((line) => line.startsWith('!!'))).toEqual([])
})

test('a dispatch that was accepted cannot be rejected any more', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  for (let times = 0; times < 10; times++) await connection.send(work.reject('disk: full'))
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(connection.countReceived('dispatch')).toBe(2)
})

test('an unknown worker is not refused as unregistered while the disk is full', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  host.fillDisk()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const connection = host.connect('unregistered')
  await connection.send(registerWithCredential({ ...worker, credential: `wc-${'x'.repeat(43)}` }))
  await host.advance(10)
  expect(connection.hasReceived('rejected')).toBe(false)
  expect(connection.closed?.code).toBe(1013)
})

test('a worker whose refusal waits for the disk is not examined again', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  const connection = host.connect('unregistered')
  const unknownWorker = registerWithCredential({ ...worker, credential: `wc-${'x'.repeat(43)}` })

  await connection.send(unknownWorker, registerWithCredential(worker))
  expect(connection.received.map((frame) => frame.type)).toEqual(['rejected'])
})

test('a shorter heartbeat timeout applies at once to connected workers', async () => {
  const host = await startHost(configWith({ fleet: { heartbeatTimeoutSeconds: 3600 } }))
  const { connection } = await enroll(host)
  await host.advance(1)
  await host.succeeded(host.hostApi.changeSettings({ fleet: { heartbeatTimeoutSeconds: 45 } }))
  await host.advance(50)
  expect(connection.closed).toBeDefined()
})

test('placement names the wall clock time at which a worker gets dispatches again', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  await connection.send(work.reject('busy: no'))
  const placed = host.hostApi.placement(runId)
  if (!placed.ok) throw new Error(placed.refusal.message)
  expect(placed.value.workers[0]?.reason).toMatch(/ 2026-01-01T00:00:31\.000Z$/)
})

test('the tracker is polled as often as before when the wall clock is set back', async () => {
  const host = await startHost()
  await host.advance(1)
  host.clock.jumpWallClock(-24 * 3_600_000)
  const before = host.tracker.polls
  await host.advance(300)
  expect(host.tracker.polls - before).toBe(10)
})

test('a heartbeat that names a lease twice counts like one that names it once', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  void host.hostApi.cancelRun(runId)
  await host.settle()
  const before = connection.countReceived('cancel')
  await connection.send(heartbeat(host, work, work, work))
  expect(connection.countReceived('cancel') - before).toBe(1)
})

test('snapshots outside any lease do not pile up before a slow disk', async () => {
  const host = await startHost(withAgent)
  const { connection, runId } = await retainRun(host)
  await resumeAndRelease(host, connection, runId)
  let started = 0
  host.store.usage.replace = () => {
    started += 1
    return new Promise(() => {})
  }
  const snapshot = { projectKey: 'p', sessionId: 'session-1', entries: [] }
  for (let times = 0; times < 100; times++) await connection.send({ type: 'run-usage-snapshot', snapshot })
  expect(started).toBeGreaterThan(0)
  expect(started).toBeLessThanOrEqual(8)
})

test('lost ranges do not pile up before a full disk without being counted', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.fillDisk()
  await host.withoutTranscript(() =>
    connection.send(...Array.from({ length: 100 }, (_, at) => work.gap(at + 1, at + 1))),
  )
  expect(host.census().pendingBytes).toBeGreaterThan(1_000)
})

test('undelivered discards are deleted together with their worker', async () => {
  const host = await startHost()
  const { connection, work, runId, worker } = await acceptRun(host)
  await connection.send(work.complete({ sandbox: { id: 'sb-1' } }))
  await connection.drop()
  await host.succeeded(host.hostApi.discardRun(runId))
  expect([...host.store.database.keyValues.all('errand')]).toHaveLength(1)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  expect([...host.store.database.keyValues.all('errand')]).toEqual([])
})

test('however many leases end, none is kept for much longer than a week', async () => {
  const clock = new ManualClock()
  const store = createMemoryStore({ clock })
  const ended = new EndedLeases(
    store.database.keyValues,
    () => {},
    { now: () => 8 * 24 * 3_600_000 },
    () => {},
  )
  const commit = async () => {
    const share = ended.contribute()
    if (share === undefined) return
    const committed = store.database.commit(share.writes)
    await clock.settle()
    await committed
    share.onCommitted()
  }
  for (let at = 0; at < 3_500; at++) {
    const id = `ls-${at.toString(16).padStart(12, '0')}`
    ended.recordEnd({ id, runId: 'r', workerId: 'w', end: 'completed' }, at)
  }
  await commit()
  ended.prune()
  for (let cuts = 0; cuts < 6; cuts++) await commit()
  expect([...store.database.keyValues.all('ended-lease')]).toEqual([])
})

test('a dispatch that cannot be built is retried, and holds no slot for ever', async () => {
  const host = await startHost()
  const { keyValues } = host.store.database
  const get = keyValues.get.bind(keyValues)
  keyValues.get = (collection, key) => (collection === 'memory' ? throws() : get(collection, key))
  const { connection } = await enroll(host, 'worker', 1)
  await host.withoutTranscript(async () => {
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
  })
  keyValues.get = get
  await host.advanceWithHeartbeats(45, [connection])
  expect(connection.countReceived('dispatch')).toBe(1)
})

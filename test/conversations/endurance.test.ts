/** What must hold when somebody is hostile, something crashes in an unlucky moment, or a clock is set. */
import { afterEach, expect, test } from '@jest/globals'
import { EndedLeases } from '../../actors/leases/ended-leases.ts'
import { runMachine } from '../../actors/runs/run.machine.ts'
import { workerMachine } from '../../actors/workers/worker.machine.ts'
import type { Result } from '../../core/result.ts'
import type { Run } from '../../protocol/run.ts'
import { createMemoryStore } from '../../store/memory-store.ts'
import { ManualClock } from '../support/manual-clock.ts'
import {
  busy,
  configWith,
  enroll,
  heartbeat,
  inHand,
  offered,
  rejoin,
  ticket,
  yarn,
} from './host-conversation.ts'
import { retained, visited, withAgent } from './terminal-conversation.ts'

inHand('a frame does not cross a connection within a moment')(
  'a sandbox that is discarded in the moment of the run’s end stays discarded',
  async () => {
    const y = await yarn()
    const { wire, work, runId } = await busy(y)
    // While something else is on its way to the disk: the end and the discarding go with the next cut.
    const discarded = new Promise<Result<Run>>((resolve) => {
      y.beforeLanding('lease', () => {
        void wire.say(work.complete({ sandbox: { id: 'sb-1' } }))
        resolve(y.desk.discardRun(runId))
      })
    })
    y.tracker.put(ticket('ENG-2'))
    await y.settle()
    expect((await y.done(discarded)).sandbox.id).toBeUndefined()
    expect(y.run(runId).sandbox.id).toBeUndefined()
  },
)

/** What a bug in a life's deed would do. */
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

test('a worker whose life was given up is sent away to come back, and never told that it is not enrolled', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.beat()
  await y.quietly(async () => {
    actionsOf(workerMachine).rename = throws
    for (let times = 0; times < 4; times++) {
      void y.desk.renameWorker(worker.workerId, 'another')
      await y.pass(5)
      if (worker.wire.closed === undefined) await worker.wire.beat()
    }
    actionsOf(workerMachine).rename = rename
  })
  expect(y.desk.fleet().workers).toEqual([])
  expect(worker.wire.closed?.code).toBe(1013)
  const again = y.connect()
  await again.say(rejoin(worker))
  expect([again.heard, again.closed?.code]).toEqual([[], 1013])
  await y.restart()
  const later = y.connect()
  await later.say(rejoin(worker))
  expect(later.has('registered')).toBe(true)
})

test('a run whose life was given up is no reason for another before it is on record as failed', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const { id } = y.runOf('ENG-1')
  let looked: () => void = () => {}
  const { tracker } = y
  const look = tracker.listTickets.bind(tracker)
  tracker.listTickets = async () => {
    await new Promise<void>((resolve) => {
      looked = resolve
    })
    return look()
  }
  await y.quietly(async () => {
    actionsOf(runMachine).cancel = throws
    void y.desk.cancelRun(id)
    await y.pass(5)
    tracker.touch()
    await y.settle()
    y.beforeLanding('run', looked)
    void y.desk.cancelRun(id)
    await y.settle()
  })
  expect(y.allRuns().map((run) => [run.id, run.status])).toEqual([[id, 'failed']])
})

test('a queued run that recovers from a crash gets one lease, not one after the other', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  let crashes = 0
  actionsOf(runMachine).cancel = () => {
    crashes += 1
    throws()
  }
  const log = y.log.error
  y.log.error = () => {}
  void y.desk.cancelRun(y.runOf('ENG-1').id)
  await y.settle()
  const worker = await enroll(y, 'worker', 4)
  await enroll(y, 'other', 4)
  await y.settle()
  y.log.error = log
  expect(crashes).toBe(1)
  expect(worker.wire.count('dispatch')).toBeLessThanOrEqual(1)
  expect(y.desk.fleet().workers.reduce((sum, { activeRuns }) => sum + activeRuns, 0)).toBe(1)
  expect(y.said.filter((line) => line.startsWith('!!'))).toEqual([])
})

test('a dispatch that was accepted cannot be rejected any more', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  for (let times = 0; times < 10; times++) await wire.say(work.reject('disk: full'))
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(wire.count('dispatch')).toBe(2)
})

test('a stranger is not told that it never said who it is when the disk is full', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  y.fill()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const wire = y.connect('stranger')
  await wire.say(rejoin({ ...worker, credential: `wc-${'x'.repeat(43)}` }))
  await y.pass(10)
  expect(wire.has('rejected')).toBe(false)
  expect(wire.closed?.code).toBe(1013)
})

test('who was judged and is not told yet is not judged again', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  const wire = y.connect('stranger')
  const stranger = rejoin({ ...worker, credential: `wc-${'x'.repeat(43)}` })

  await wire.say(stranger, rejoin(worker))
  expect(wire.heard.map((frame) => frame.type)).toEqual(['rejected'])
})

test('a shorter heartbeat timeout counts at once for those who are connected', async () => {
  const y = await yarn(configWith({ fleet: { heartbeatTimeoutSeconds: 3600 } }))
  const { wire } = await enroll(y)
  await y.pass(1)
  await y.done(y.desk.changeSettings({ fleet: { heartbeatTimeoutSeconds: 45 } }))
  await y.pass(50)
  expect(wire.closed).toBeDefined()
})

test('placement says on the wall clock when a worker is asked again', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  await wire.say(work.reject('busy: no'))
  const placed = y.desk.placement(runId)
  if (!placed.ok) throw new Error(placed.refusal.message)
  expect(placed.value.workers[0]?.reason).toBe('refused a dispatch; asked again at 2026-01-01T00:00:31.000Z')
})

test('the tracker is looked at as often as ever when the wall clock is set back', async () => {
  const y = await yarn()
  await y.pass(1)
  y.clock.jump(-24 * 3_600_000)
  const before = y.tracker.looks
  await y.pass(300)
  expect(y.tracker.looks - before).toBe(10)
})

test('a heartbeat that names a lease twice says no more than one that names it once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  void y.desk.cancelRun(runId)
  await y.settle()
  const before = wire.count('cancel')
  await wire.say(heartbeat(y, work, work, work))
  expect(wire.count('cancel') - before).toBe(1)
})

test('snapshots outside any lease do not pile up before a slow disk', async () => {
  const y = await yarn(withAgent)
  const { wire, runId } = await retained(y)
  await visited(y, wire, runId)
  let started = 0
  y.store.usage.replace = () => {
    started += 1
    return new Promise(() => {})
  }
  const snapshot = { projectKey: 'p', sessionId: 'session-1', entries: [] }
  for (let times = 0; times < 100; times++) await wire.say({ type: 'run-usage-snapshot', snapshot })
  expect(started).toBeGreaterThan(0)
  expect(started).toBeLessThanOrEqual(8)
})

test('lost ranges do not pile up before a full disk without being counted', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.fill()
  await y.quietly(() => wire.say(...Array.from({ length: 100 }, (_, at) => work.gap(at + 1, at + 1))))
  expect(y.census().pendingBytes).toBeGreaterThan(1_000)
})

test('what a worker was to be told is forgotten with the worker', async () => {
  const y = await yarn()
  const { wire, work, runId, worker } = await busy(y)
  await wire.say(work.complete({ sandbox: { id: 'sb-1' } }))
  await wire.drop()
  await y.done(y.desk.discardRun(runId))
  expect([...y.store.database.keyValues.all('errand')]).toHaveLength(1)
  await y.done(y.desk.revokeWorker(worker.workerId))
  expect([...y.store.database.keyValues.all('errand')]).toEqual([])
})

test('however many leases end, none is remembered for much longer than a week', async () => {
  const clock = new ManualClock()
  const store = createMemoryStore({ clock })
  const ended = new EndedLeases(store.database.keyValues, () => {})
  const commit = async () => {
    const share = ended.contribute()
    if (share === undefined) return
    const landed = store.database.commit(share.writes)
    await clock.turn()
    await landed
    share.onCommitted()
  }
  for (let at = 0; at < 3_500; at++) {
    const id = `ls-${at.toString(16).padStart(12, '0')}`
    ended.recordEnd(
      { id, runId: 'r', workerId: 'w', termMs: 1, grantedAt: '', end: 'completed', why: null },
      at,
    )
  }
  await commit()
  ended.prune(8 * 24 * 3_600_000)
  for (let cuts = 0; cuts < 6; cuts++) await commit()
  expect([...store.database.keyValues.all('ended-lease')]).toEqual([])
})

test('a dispatch that cannot even be made is tried again, and holds no slot for ever', async () => {
  const y = await yarn()
  const { keyValues } = y.store.database
  const get = keyValues.get.bind(keyValues)
  keyValues.get = (shelf, key) => (shelf === 'memory' ? throws() : get(shelf, key))
  const { wire } = await enroll(y, 'worker', 1)
  await y.quietly(async () => {
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
  })
  keyValues.get = get
  await y.beating(45, [wire])
  expect(wire.count('dispatch')).toBe(1)
})

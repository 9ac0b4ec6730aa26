/** Pushes to the dashboards: which ones are sent, when, and in which order. */
import { expect, test } from '@jest/globals'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import type { OutgoingPush } from '../../core/ports/connections.ts'
import { no, yes } from '../../core/result.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { readPush } from '../support/dashboard-pushes.ts'
import {
  acceptRun,
  enroll,
  type HostConversation,
  inMemoryOnly,
  offerRun,
  reconnect,
  startHost,
  ticket,
  trackerConnectionOf,
  Work,
} from './host-conversation.ts'

/** Describes each push in one line. */
function describePushes(pushes: readonly DashboardPush[]): string[] {
  return pushes.map((push) => {
    if (push.type === 'run-updated') return `run-updated ${push.run.ticket.identifier} ${push.run.status}`
    if (push.type === 'run-event')
      return `run-event #${push.event.index} ${push.event.type === 'status' ? push.event.to : push.event.type}`
    if (push.type === 'tickets')
      return `tickets ${push.tickets.map(({ identifier }) => identifier).join(' ')}`
    if (push.type === 'workers')
      return `workers ${push.workers.map(({ state, connection }) => `${state} ${connection}`).join(', ')}`
    if (push.type === 'linear-status') return `linear-status ${push.linearStatus.state}`
    return push.type
  })
}

const pushesOf = (type: DashboardPush['type'], pushes: readonly DashboardPush[]) =>
  describePushes(pushes).filter((line) => line.startsWith(type))

test('a ticket becomes a run: tickets, then what happened in the run, then the run', async () => {
  const host = await startHost()
  await enroll(host)
  const pushes = host.recordPushes()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(describePushes(pushes)).toEqual(['tickets ENG-1', 'run-event #0 queued', 'run-updated ENG-1 queued'])
})

test('each status of a run is pushed as an event and with the run', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  const pushes = host.recordPushes()
  for (const frame of [
    work.accept(),
    work.running(),
    work.patch({ status: 'finalizing' }),
    work.complete(),
  ]) {
    await connection.send(frame)
    await host.clock.advance(100)
  }
  expect(describePushes(pushes).filter((line) => line.startsWith('run-'))).toEqual([
    'run-event #1 preparing',
    'run-updated ENG-1 preparing',
    'run-event #2 running',
    'run-updated ENG-1 running',
    'run-event #3 finalizing',
    'run-updated ENG-1 finalizing',
    'run-event #4 completed',
    'run-updated ENG-1 completed',
  ])
})

test('every event of a run is pushed before its end', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.clock.advance(200)
  const pushes = host.recordPushes()
  await connection.send(work.event(), work.event(), work.complete())
  expect(describePushes(pushes)).toEqual([
    'run-event #2 log',
    'run-event #3 log',
    'run-event #4 completed',
    'run-updated ENG-1 completed',
  ])
})

test('a run that changes fast is pushed at most ten times a second, and its last state always', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.clock.advance(200)
  const pushes = host.recordPushes()
  for (let at = 1; at <= 100; at++) {
    await connection.send(work.patch({ agentSessionId: `s-${at}` }))
    await host.clock.advance(10)
  }
  const updates = pushes.flatMap((push) => (push.type === 'run-updated' ? [push.run.agentSessionId] : []))
  expect(updates.length).toBeGreaterThanOrEqual(9)
  expect(updates.length).toBeLessThanOrEqual(11)
  await host.clock.advance(200)
  expect(pushes.findLast((push) => push.type === 'run-updated')).toMatchObject({
    run: { agentSessionId: 's-100' },
  })
})

inMemoryOnly('the listeners watch from the start, so the rate limit is already in effect')(
  'pushes of a run that changes fast never go back to an older state',
  async () => {
    const host = await startHost()
    const { connection, work } = await offerRun(host)
    const pushes = host.recordPushes()
    await connection.send(work.accept(), work.running())
    await host.clock.advance(50)
    await connection.send(work.patch({ status: 'finalizing' }), work.complete())
    await host.clock.advance(500)
    expect(pushesOf('run-updated', pushes)).toEqual([
      'run-updated ENG-1 running',
      'run-updated ENG-1 completed',
    ])
  },
)

test('two runs are pushed at independent rates', async () => {
  const host = await startHost()
  const pushes = host.recordPushes()
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  expect(pushesOf('run-updated', pushes)).toHaveLength(2)
})

test('`run-event` is pushed only for events on disk', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.clock.advance(200)
  const pushes = host.recordPushes()
  host.fillDisk()
  await connection.send(work.running(), work.event('one'), work.event('two'))
  await host.clock.advance(1000)
  // The run is shown as it is on disk, with the reason for which it stands still.
  expect(describePushes(pushes).filter((line) => line.startsWith('run'))).toEqual([
    'run-updated ENG-1 preparing',
  ])
  pushes.length = 0
  await host.freeDisk()
  await host.clock.advance(1000)
  expect(describePushes(pushes).filter((line) => line.startsWith('run'))).toEqual([
    'run-updated ENG-1 preparing',
    'run-event #2 running',
    'run-event #3 log',
    'run-event #4 log',
    'run-updated ENG-1 running',
  ])
})

test('every event is pushed once, in the order of its number, and as it is in the history', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const pushes = host.recordPushes()
  await connection.send(...Array.from({ length: 50 }, (_, at) => work.event(`${at}`)))
  await connection.send(work.gap(51, 60), work.event('after'), work.complete())
  const events = pushes.flatMap((push) => (push.type === 'run-event' ? [push.event] : []))
  expect(events).toEqual((await host.readEvents(runId)).slice(2))
})

test('the push of an event has its text, as far as it is printable', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const pushes = host.recordPushes()
  const texts = ['“quoted” "twice"\n', '', '😀', '\ud800 alone']
  await connection.send(...texts.map((each) => work.event(each)))
  const events = pushes.flatMap((push) => (push.type === 'run-event' ? [push.event] : []))
  expect(events).toMatchObject(texts.map((text) => ({ runId, type: 'log', text })))
})

test('`tickets` when the queue of eligible tickets changed, and not when it did not', async () => {
  const host = await startHost()
  const pushes = host.recordPushes()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  host.tracker.announceChange()
  await host.settle()
  host.tracker.put(ticket('ENG-2', { state: 'In Progress' }), ticket('ENG-1'))
  await host.settle()
  expect(pushesOf('tickets', pushes)).toEqual(['tickets ENG-2', 'tickets ENG-1'])
})

async function workerPushesDuring(does: (host: HostConversation) => Promise<unknown>): Promise<string[]> {
  const host = await startHost()
  const worker = await enroll(host)
  await host.clock.advance(1000)
  known.set(host, worker)
  const pushes = host.recordPushes()
  await does(host)
  await host.clock.advance(1000)
  return pushesOf('workers', pushes)
}
const known = new WeakMap<HostConversation, Awaited<ReturnType<typeof enroll>>>()
function workerOf(host: HostConversation) {
  const worker = known.get(host)
  if (worker === undefined) throw new Error('no worker')
  return worker
}

test.each<[string, (host: HostConversation) => Promise<unknown>, string]>([
  ['enrollment', (host) => enroll(host, 'other'), 'workers active online, active online'],
  [
    'rename',
    (host) => host.succeeded(host.hostApi.renameWorker(workerOf(host).workerId, 'big')),
    'workers active online',
  ],
  [
    'drain',
    (host) => host.succeeded(host.hostApi.drainWorker(workerOf(host).workerId)),
    'workers draining online',
  ],
  ['drop', (host) => workerOf(host).connection.drop(), 'workers active offline'],
  ['connect', (host) => reconnect(host, workerOf(host)), 'workers active online'],
  ['revocation', (host) => host.succeeded(host.hostApi.revokeWorker(workerOf(host).workerId)), 'workers '],
  [
    'fresh capabilities on heartbeat',
    (host) =>
      workerOf(host).connection.send({
        type: 'heartbeat',
        leases: [],
        attachSessions: 0,
        sentAt: 1,
        capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 7, version: '0.2.0' },
      }),
    'workers active online',
  ],
])('`workers` on %s', async (_, does, line) => {
  expect(await workerPushesDuring(does)).toEqual([line])
})

test('`workers` on enable', async () => {
  const lines = await workerPushesDuring(async (host) => {
    await host.succeeded(host.hostApi.drainWorker(workerOf(host).workerId))
    await host.clock.advance(500)
    await host.succeeded(host.hostApi.enableWorker(workerOf(host).workerId))
  })
  expect(lines).toEqual(['workers draining online', 'workers active online'])
})

test('`workers` when a run is dispatched and when its lease has ended', async () => {
  const host = await startHost()
  const pushes = host.recordPushes()
  const { connection, work } = await offerRun(host)
  await host.clock.advance(1000)
  for (const frame of [work.accept(), work.complete()]) await connection.send(frame)
  await host.clock.advance(1000)
  const counts = pushes.flatMap((push) =>
    push.type === 'workers' ? push.workers.map(({ activeRuns }) => activeRuns) : [],
  )
  expect([counts.at(-2), counts.at(-1)]).toEqual([1, 0])
})

test('heartbeats without news cause no push', async () => {
  const lines = await workerPushesDuring((host) =>
    host.advanceWithHeartbeats(120, [workerOf(host).connection]),
  )
  expect(lines).toEqual([])
})

test('workers that change fast are pushed at most ten times a second, and their last state always', async () => {
  const lines = await workerPushesDuring(async (host) => {
    for (let times = 0; times < 25; times++) {
      await host.succeeded(host.hostApi.drainWorker(workerOf(host).workerId))
      await host.succeeded(host.hostApi.enableWorker(workerOf(host).workerId))
      await host.clock.advance(20)
    }
    await host.succeeded(host.hostApi.drainWorker(workerOf(host).workerId))
  })
  expect(lines.length).toBeLessThanOrEqual(7)
  expect(lines.at(-1)).toBe('workers draining online')
})

test('`linear-status` when the state of the tracker’s connector changed', async () => {
  const host = await startHost()
  const pushes = host.recordPushes()
  host.tracker.answer = no('unauthorized', 'the key is dead')
  host.tracker.announceChange()
  await host.settle()
  expect(pushes).toContainEqual({
    type: 'linear-status',
    linearStatus: expect.objectContaining({ state: 'auth-error', error: 'the key is dead' }),
  })
  expect(trackerConnectionOf(host)).toEqual({ state: 'auth-error', error: 'the key is dead' })
})

test('a ticket that cannot be read is named in the tracker’s status and leaves the others alone', async () => {
  const host = await startHost()
  host.tracker.answer = yes({
    tickets: [{ ticket: ticket('ENG-1'), closed: false }],
    problems: ['ENG-2.md: no front matter'],
  })
  host.tracker.announceChange()
  await host.settle()
  expect(trackerConnectionOf(host)).toEqual({
    state: 'connected',
    error: 'ENG-2.md: no front matter',
  })
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('an unchanged tracker status causes no push', async () => {
  const host = await startHost()
  await host.advance(1)
  const pushes = host.recordPushes()
  for (let times = 0; times < 3; times++) await host.advance(30)
  expect(describePushes(pushes)).toEqual([])
})

test('`config` when the configuration changed, redacted', async () => {
  const host = await startHost()
  const pushes = host.recordPushes()
  await host.succeeded(host.hostApi.changeSettings({ connect: { trackerClientSecret: 'hush' } }))
  await host.settle()
  const push = pushes.find(({ type }) => type === 'config')
  expect(push).toMatchObject({ config: { connect: { trackerClientSecret: '***' } } })
  expect(JSON.stringify(pushes)).not.toContain('hush')
})

test('`hello` carries every unfinished run, the newest finished ones, tickets, config, tracker and workers', async () => {
  const host = await startHost()
  const { connection, work, worker } = await acceptRun(host)
  await connection.send(work.complete())
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(host.hostApi.hello()).toMatchObject({
    type: 'hello',
    runs: [
      { ticket: { identifier: 'ENG-2' }, status: 'queued', queueReason: FLEET_REASONS.draining },
      { ticket: { identifier: 'ENG-1' }, status: 'completed' },
    ],
    tickets: [{ identifier: 'ENG-1' }, { identifier: 'ENG-2' }],
    linearStatus: { state: 'connected' },
    workers: [{ id: worker.workerId, state: 'draining' }],
    config: { tracker: { driver: 'local' } },
  })
})

test('`hello` contains only what is on disk', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.fillDisk()
  await connection.send(work.running())
  expect(host.hostApi.hello().runs.map(({ status }) => status)).toEqual(['preparing'])
  await host.freeDisk()
  expect(host.hostApi.hello().runs.map(({ status }) => status)).toEqual(['running'])
})

test('queued runs are pushed again when the reason they wait for changes', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const pushes = host.recordPushes()
  const worker = await enroll(host)
  await worker.connection.send(new Work(worker.connection.lastReceived('dispatch')).reject('busy: no'))
  await host.clock.advance(500)
  const reasons = pushes.flatMap((push) => (push.type === 'run-updated' ? [push.run.queueReason] : []))
  expect(reasons.at(-1)).toBe(FLEET_REASONS.paused)
})

test('a listener that throws does not keep other listeners from their pushes', async () => {
  const host = await startHost()
  await host.withoutTranscript(async () => {
    host.hostApi.onPush(() => {
      throw new Error('a broken terminal')
    })
    const pushes = host.recordPushes()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    expect(pushes.length).toBeGreaterThan(0)
  })
})

test('every event can be read when it is pushed, and each is pushed once', async () => {
  const host = await startHost()
  const pushed: number[] = []
  const unreadable: number[] = []
  host.hostApi.onPush((outgoing) => {
    const push = readPush(outgoing)
    if (push.type !== 'run-event') return
    pushed.push(push.event.index)
    if (host.hostApi.nextEventIndex(push.event.runId) <= push.event.index) unreadable.push(push.event.index)
  })
  const { connection, work } = await acceptRun(host)
  await connection.send(work.patch({ status: 'running' }), work.complete())
  const events = await host.readEvents(work.runId)
  expect(pushed).toEqual(events.map(({ index }) => index))
  expect(unreadable).toEqual([])
  expect(host.hostApi.nextEventIndex(work.runId)).toBe(events.length)
  expect(host.hostApi.nextEventIndex('run-0')).toBe(0)
})

test('a removed listener receives no more pushes', async () => {
  const host = await startHost()
  const pushes: OutgoingPush[] = []
  const stop = host.hostApi.onPush((push) => void pushes.push(push))
  stop()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(pushes).toEqual([])
})

test('`hello` carries the newest 200 finished runs', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete())
  const old = host.run(work.runId)
  const name = (at: number) => `run-0${String(at).padStart(31, '0')}`
  void host.store.database.commit(
    Array.from(
      { length: 250 },
      (_, at) => ({ table: 'run', id: name(at), run: { ...old, id: name(at) } }) as const,
    ),
  )
  await host.settle()
  const { runs } = host.hostApi.hello()
  expect(runs).toHaveLength(200)
  expect([runs[0]?.id, runs[199]?.id]).toEqual([work.runId, name(51)])
})

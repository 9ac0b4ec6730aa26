/** What the dashboards are told, when, and in which order. */
import { expect, test } from '@jest/globals'
import { no, yes } from '../../core/result.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { back, busy, enroll, inHand, offered, ticket, Work, type Yarn, yarn } from './host-conversation.ts'

/** One line a push. */
function told(pushes: readonly DashboardPush[]): string[] {
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

const only = (type: DashboardPush['type'], pushes: readonly DashboardPush[]) =>
  told(pushes).filter((line) => line.startsWith(type))

test('a ticket becomes a run: tickets, then what happened in the run, then the run', async () => {
  const y = await yarn()
  await enroll(y)
  const pushes = y.watch()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(told(pushes)).toEqual(['tickets ENG-1', 'run-event #0 queued', 'run-updated ENG-1 queued'])
})

test('each status of a run is told as an event and as the run', async () => {
  const y = await yarn()
  const { wire, work } = await offered(y)
  const pushes = y.watch()
  for (const frame of [
    work.accept(),
    work.running(),
    work.patch({ status: 'finalizing' }),
    work.complete(),
  ]) {
    await wire.say(frame)
    await y.clock.advance(100)
  }
  expect(told(pushes).filter((line) => line.startsWith('run-'))).toEqual([
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

test('whoever hears of a run’s end has heard of every event before it', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await y.clock.advance(200)
  const pushes = y.watch()
  await wire.say(work.event(), work.event(), work.complete())
  expect(told(pushes)).toEqual([
    'run-event #2 log',
    'run-event #3 log',
    'run-event #4 completed',
    'run-updated ENG-1 completed',
  ])
})

test('a run that changes fast is told of at most ten times a second, its last state always', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await y.clock.advance(200)
  const pushes = y.watch()
  for (let at = 1; at <= 100; at++) {
    await wire.say(work.patch({ agentSessionId: `s-${at}` }))
    await y.clock.advance(10)
  }
  const updates = pushes.flatMap((push) => (push.type === 'run-updated' ? [push.run.agentSessionId] : []))
  expect(updates.length).toBeGreaterThanOrEqual(9)
  expect(updates.length).toBeLessThanOrEqual(11)
  await y.clock.advance(200)
  expect(pushes.findLast((push) => push.type === 'run-updated')).toMatchObject({
    run: { agentSessionId: 's-100' },
  })
})

inHand('the doors watch from the start, so the pace is under way already')(
  'what is told of a run that changes fast never goes backwards',
  async () => {
    const y = await yarn()
    const { wire, work } = await offered(y)
    const pushes = y.watch()
    await wire.say(work.accept(), work.running())
    await y.clock.advance(50)
    await wire.say(work.patch({ status: 'finalizing' }), work.complete())
    await y.clock.advance(500)
    expect(only('run-updated', pushes)).toEqual(['run-updated ENG-1 running', 'run-updated ENG-1 completed'])
  },
)

test('two runs are told of at a pace of their own', async () => {
  const y = await yarn()
  const pushes = y.watch()
  y.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await y.settle()
  expect(only('run-updated', pushes)).toHaveLength(2)
})

test('`run-event` is told only of what is on disk', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await y.clock.advance(200)
  const pushes = y.watch()
  y.fill()
  await wire.say(work.running(), work.event('one'), work.event('two'))
  await y.clock.advance(1000)
  expect(pushes.filter(({ type }) => type.startsWith('run'))).toEqual([])
  await y.drain()
  expect(told(pushes).filter((line) => line.startsWith('run'))).toEqual([
    'run-event #2 running',
    'run-event #3 log',
    'run-event #4 log',
    'run-updated ENG-1 running',
  ])
})

test('every event is told once, in the order of its number, and as it is in the history', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const pushes = y.watch()
  await wire.say(...Array.from({ length: 50 }, (_, at) => work.event(`${at}`)))
  await wire.say(work.gap(51, 60), work.event('after'), work.complete())
  const events = pushes.flatMap((push) => (push.type === 'run-event' ? [push.event] : []))
  expect(events).toEqual((await y.done(y.desk.runEvents(runId, {}))).slice(2))
})

test('the text of a push is the push', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const texts: [DashboardPush, string][] = []
  y.desk.onPush((push, text) => {
    if (text !== undefined) texts.push([push, text])
  })
  await wire.say(work.event('“quoted”\n'))
  expect(texts.length).toBeGreaterThan(0)
  for (const [push, text] of texts) expect(JSON.parse(text)).toEqual(push)
})

test('`tickets` when the queue of eligible tickets changed, and not when it did not', async () => {
  const y = await yarn()
  const pushes = y.watch()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  y.tracker.touch()
  await y.settle()
  y.tracker.put(ticket('ENG-2', { state: 'In Progress' }), ticket('ENG-1'))
  await y.settle()
  expect(only('tickets', pushes)).toEqual(['tickets ENG-2', 'tickets ENG-1'])
})

async function workersTold(does: (y: Yarn) => Promise<unknown>): Promise<string[]> {
  const y = await yarn()
  const worker = await enroll(y)
  await y.clock.advance(1000)
  known.set(y, worker)
  const pushes = y.watch()
  await does(y)
  await y.clock.advance(1000)
  return only('workers', pushes)
}
const known = new WeakMap<Yarn, Awaited<ReturnType<typeof enroll>>>()
function workerOf(y: Yarn) {
  const worker = known.get(y)
  if (worker === undefined) throw new Error('no worker')
  return worker
}

test.each<[string, (y: Yarn) => Promise<unknown>, string]>([
  ['enrollment', (y) => enroll(y, 'other'), 'workers active online, active online'],
  ['rename', (y) => y.done(y.desk.renameWorker(workerOf(y).workerId, 'big')), 'workers active online'],
  ['drain', (y) => y.done(y.desk.drainWorker(workerOf(y).workerId)), 'workers draining online'],
  ['drop', (y) => workerOf(y).wire.drop(), 'workers active offline'],
  ['connect', (y) => back(y, workerOf(y)), 'workers active online'],
  ['revocation', (y) => y.done(y.desk.revokeWorker(workerOf(y).workerId)), 'workers '],
  [
    'fresh capabilities on heartbeat',
    (y) =>
      workerOf(y).wire.say({
        type: 'heartbeat',
        leases: [],
        attachSessions: 0,
        sentAt: 1,
        capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 7, version: '0.2.0' },
      }),
    'workers active online',
  ],
])('`workers` on %s', async (_, does, line) => {
  expect(await workersTold(does)).toEqual([line])
})

test('`workers` on enable', async () => {
  const lines = await workersTold(async (y) => {
    await y.done(y.desk.drainWorker(workerOf(y).workerId))
    await y.clock.advance(500)
    await y.done(y.desk.enableWorker(workerOf(y).workerId))
  })
  expect(lines).toEqual(['workers draining online', 'workers active online'])
})

test('heartbeats that say nothing new are told to nobody', async () => {
  const lines = await workersTold((y) => y.beating(120, [workerOf(y).wire]))
  expect(lines).toEqual([])
})

test('a fleet that changes fast is told of at most ten times a second, its last state always', async () => {
  const lines = await workersTold(async (y) => {
    for (let times = 0; times < 25; times++) {
      await y.done(y.desk.drainWorker(workerOf(y).workerId))
      await y.done(y.desk.enableWorker(workerOf(y).workerId))
      await y.clock.advance(20)
    }
    await y.done(y.desk.drainWorker(workerOf(y).workerId))
  })
  expect(lines.length).toBeLessThanOrEqual(7)
  expect(lines.at(-1)).toBe('workers draining online')
})

test('`linear-status` when the state of the tracker’s connector changed', async () => {
  const y = await yarn()
  const pushes = y.watch()
  y.tracker.answer = no('unauthorized', 'the key is dead')
  y.tracker.touch()
  await y.settle()
  expect(pushes).toContainEqual({
    type: 'linear-status',
    linearStatus: { state: 'auth-error', error: 'the key is dead' },
  })
  expect(y.desk.hello().linearStatus).toEqual({ state: 'auth-error', error: 'the key is dead' })
})

test('a ticket that cannot be read is named in the tracker’s status and leaves the others alone', async () => {
  const y = await yarn()
  y.tracker.answer = yes({
    tickets: [{ ticket: ticket('ENG-1'), closed: false }],
    problems: ['ENG-2.md: no front matter'],
  })
  y.tracker.touch()
  await y.settle()
  expect(y.desk.hello().linearStatus).toEqual({ state: 'connected', error: 'ENG-2.md: no front matter' })
  expect(y.runOf('ENG-1').status).toBe('queued')
})

test('a tracker that is as it was is told to nobody', async () => {
  const y = await yarn()
  await y.pass(1)
  const pushes = y.watch()
  for (let times = 0; times < 3; times++) await y.pass(30)
  expect(told(pushes)).toEqual([])
})

test('`config` when the configuration changed, redacted', async () => {
  const y = await yarn()
  const pushes = y.watch()
  await y.done(y.desk.changeSettings({ connect: { trackerClientSecret: 'hush' } }))
  await y.settle()
  const push = pushes.find(({ type }) => type === 'config')
  expect(push).toMatchObject({ config: { connect: { trackerClientSecret: '***' } } })
  expect(JSON.stringify(pushes)).not.toContain('hush')
})

test('`hello` carries every unfinished run, the newest finished ones, tickets, config, tracker and workers', async () => {
  const y = await yarn()
  const { wire, work, worker } = await busy(y)
  await wire.say(work.complete())
  await y.done(y.desk.drainWorker(worker.workerId))
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(y.desk.hello()).toMatchObject({
    type: 'hello',
    runs: [
      { ticket: { identifier: 'ENG-2' }, status: 'queued', queueReason: 'all workers are draining' },
      { ticket: { identifier: 'ENG-1' }, status: 'completed' },
    ],
    tickets: [{ identifier: 'ENG-1' }, { identifier: 'ENG-2' }],
    linearStatus: { state: 'connected' },
    workers: [{ id: worker.workerId, state: 'draining' }],
    config: { tracker: { driver: 'local' } },
  })
})

test('`hello` tells only of what is on disk', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.fill()
  await wire.say(work.running())
  expect(y.desk.hello().runs.map(({ status }) => status)).toEqual(['preparing'])
  await y.drain()
  expect(y.desk.hello().runs.map(({ status }) => status)).toEqual(['running'])
})

test('queued runs are told anew when what they wait for changes', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const pushes = y.watch()
  const worker = await enroll(y)
  await worker.wire.say(new Work(worker.wire.last('dispatch')).reject('busy: no'))
  await y.clock.advance(500)
  const reasons = pushes.flatMap((push) => (push.type === 'run-updated' ? [push.run.queueReason] : []))
  expect(reasons.at(-1)).toBe('all workers refused a dispatch a moment ago')
})

test('a listener that throws keeps nobody else from hearing', async () => {
  const y = await yarn()
  await y.quietly(async () => {
    y.desk.onPush(() => {
      throw new Error('a broken terminal')
    })
    const pushes = y.watch()
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
    expect(pushes.length).toBeGreaterThan(0)
  })
})

test('who listens no more hears no more', async () => {
  const y = await yarn()
  const pushes: DashboardPush[] = []
  const stop = y.desk.onPush((push) => void pushes.push(push))
  stop()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(pushes).toEqual([])
})

test('`hello` carries the newest 200 finished runs', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  const old = y.run(work.runId)
  const name = (at: number) => `run-0${String(at).padStart(31, '0')}`
  void y.store.database.commit(
    Array.from(
      { length: 250 },
      (_, at) => ({ table: 'run', id: name(at), run: { ...old, id: name(at) } }) as const,
    ),
  )
  await y.settle()
  const { runs } = y.desk.hello()
  expect(runs).toHaveLength(200)
  expect([runs[0]?.id, runs[199]?.id]).toEqual([work.runId, name(51)])
})

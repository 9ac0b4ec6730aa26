/** What waits, in which order it is taken, and the reason that a person is given. */
import { expect, test } from '@jest/globals'
import {
  busy,
  config,
  configWith,
  enroll,
  offered,
  ticket,
  Work,
  type Yarn,
  yarn,
} from './host-conversation.ts'

const reason = (y: Yarn, identifier: string) => y.runOf(identifier).queueReason

function placed(y: Yarn, identifier: string) {
  const answer = y.desk.placement(y.runOf(identifier).id)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

async function taken(y: Yarn, count: number): Promise<string[]> {
  const { wire } = await enroll(y, 'worker', 1)
  for (let at = 0; at < count; at++) {
    const work = new Work(wire.last('dispatch'))
    await wire.say(work.accept(), work.complete())
  }
  return wire.heard.flatMap((frame) => (frame.type === 'dispatch' ? [frame.job.run.ticket.identifier] : []))
}

test('runs are ordered by priority (1, 2, 3, 4, 0), then by the age of their tickets', async () => {
  const y = await yarn()
  const made = [
    ['none', 0, 1],
    ['low', 4, 1],
    ['urgent, newer', 1, 9],
    ['normal', 3, 1],
    ['high', 2, 1],
    ['urgent, older', 1, 2],
  ] as const
  for (const [name, priority, day] of made) {
    y.tracker.put(ticket(name, { priority, createdAt: `2025-12-0${day}T00:00:00.000Z` }))
    await y.pass(1)
  }
  expect(await taken(y, 6)).toEqual(['urgent, older', 'urgent, newer', 'high', 'normal', 'low', 'none'])
})

test('the eligible tickets are shown in the order in which they are taken', async () => {
  const y = await yarn()
  y.tracker.put(ticket('low', { priority: 4 }), ticket('none'), ticket('urgent', { priority: 1 }))
  await y.settle()
  expect(y.desk.tickets().map(({ identifier }) => identifier)).toEqual(['urgent', 'low', 'none'])
})

test('a retried run takes its place by its ticket’s priority and age', async () => {
  const y = await yarn()
  y.tracker.put(ticket('old'))
  await y.settle()
  const { id } = y.runOf('old')
  await y.done(y.desk.cancelRun(id))
  y.tracker.put(ticket('new', { createdAt: '2025-12-09T00:00:00.000Z' }))
  await y.pass(5)
  await y.done(y.desk.retryRun(id))
  expect(await taken(y, 2)).toEqual(['old', 'new'])
})

test('work spreads: the worker with the most room is asked first', async () => {
  const y = await yarn()
  const small = await enroll(y, 'small', 1)
  const big = await enroll(y, 'big', 3)
  y.tracker.put(...['1', '2', '3', '4'].map((n) => ticket(`ENG-${n}`)))
  await y.settle()
  expect([small.wire.count('dispatch'), big.wire.count('dispatch')]).toEqual([1, 3])
})

test('`no workers connected`', async () => {
  const y = await yarn()
  const { wire } = await enroll(y, 'away')
  await wire.drop()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(reason(y, 'ENG-1')).toBe('no workers connected')
  expect(placed(y, 'ENG-1')).toMatchObject({
    reason: 'no workers connected',
    workers: [{ name: 'away', free: 2, reason: 'not connected' }],
  })
})

test('`all workers are draining`', async () => {
  const y = await yarn()
  const { workerId } = await enroll(y)
  await y.done(y.desk.drainWorker(workerId))
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(reason(y, 'ENG-1')).toBe('all workers are draining')
  expect(placed(y, 'ENG-1').workers).toMatchObject([{ reason: 'draining' }])
})

test('`fleet at capacity`', async () => {
  const y = await yarn()
  await busy(y, 'ENG-1', 1)
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(reason(y, 'ENG-2')).toBe('fleet at capacity')
  expect(placed(y, 'ENG-2').workers).toMatchObject([{ free: 0, reason: 'all 1 slots taken' }])
})

test('`fleet at capacity` beside a worker that drains', async () => {
  const y = await yarn()
  await busy(y, 'ENG-1', 1)
  const other = await enroll(y, 'other')
  await y.done(y.desk.drainWorker(other.workerId))
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(reason(y, 'ENG-2')).toBe('fleet at capacity')
})

test('`waiting for <ticket identifiers>`', async () => {
  const y = await yarn()
  await enroll(y, 'worker', 9)
  y.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { id: 'uuid-2', state: 'In Progress' }),
    ticket('ENG-3', { blockedBy: ['ENG-1', 'uuid-2'] }),
  )
  await y.settle()
  expect(reason(y, 'ENG-3')).toBe('waiting for ENG-1, ENG-2')
  expect(placed(y, 'ENG-3').reason).toBe('waiting for ENG-1, ENG-2')
})

test('a blocked run is dispatched when its blockers are closed, and not before the last of them', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { state: 'In Progress' }),
    ticket('ENG-3', { blockedBy: ['ENG-1', 'ENG-2'] }),
  )
  await y.settle()
  y.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await y.settle()
  expect(reason(y, 'ENG-3')).toBe('waiting for ENG-2')
  expect(wire.has('dispatch')).toBe(false)
  y.tracker.close(ticket('ENG-2', { state: 'Done' }))
  await y.settle()
  expect(wire.last('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('a blocked run holds up nobody behind it', async () => {
  const y = await yarn()
  const { wire } = await enroll(y, 'worker', 1)
  y.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { priority: 1, blockedBy: ['ENG-1'] }),
    ticket('ENG-3', { priority: 4 }),
  )
  await y.settle()
  expect(wire.last('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('a run that is blocked only after it was queued waits from then on', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'In Progress' }), ticket('ENG-2'))
  await y.settle()
  y.tracker.put(ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await y.settle()
  const { wire } = await enroll(y)
  expect(reason(y, 'ENG-2')).toBe('waiting for ENG-1')
  expect(wire.has('dispatch')).toBe(false)
})

test('tickets that wait for each other say so', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { blockedBy: ['ENG-2'] }), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await y.settle()
  expect(reason(y, 'ENG-1')).toMatch(/^waiting for ENG-2; .*circle/)
})

test('a ticket without a repository waits with a sentence that says what to do, until it is done', async () => {
  const y = await yarn(config.replace('"remote":"owner/name"', '"remote":"owner/name","label":"web"'))
  const { wire } = await enroll(y)
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(reason(y, 'ENG-1')).toMatch(/^no repository is for ENG-1: give it a label/)
  await y.done(y.desk.changeSettings({ repos: { all: { remote: 'owner/all' } } }))
  await y.settle()
  expect(wire.last('dispatch').job.repo.remote).toBe('owner/all')
})

test('`interrupted: <why>`', async () => {
  const y = await yarn()
  await busy(y)
  await y.pass(165)
  expect(reason(y, 'ENG-1')).toMatch(/^interrupted: the worker did not come back in time/)
})

test('a follow-up reason is nobody’s who runs for the first time: a worker that comes takes the run, and the reason goes', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  await enroll(y)
  expect(y.runOf('ENG-1')).not.toHaveProperty('queueReason')
})

test('placement of a run that was dispatched names its worker', async () => {
  const y = await yarn()
  const { worker } = await offered(y)
  expect(placed(y, 'ENG-1')).toMatchObject({ worker: worker.workerId })
  expect(placed(y, 'ENG-1')).not.toHaveProperty('reason')
})

test('placement of a run that is over says so', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  expect(placed(y, 'ENG-1').reason).toBe('the run is completed: it waits for no worker')
})

test('who is eligible is decided anew when the configuration changes', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Ready' }))
  await y.settle()
  expect(y.allRuns()).toEqual([])
  await y.done(y.desk.changeSettings({ tracker: { eligible: { states: ['ready'] } } }))
  await y.settle()
  expect(y.runOf('ENG-1').status).toBe('queued')
})

test('a queued run leaves the queue when somebody takes its ticket out of the eligible ones', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  await y.restart()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  expect(y.runOf('ENG-1')).toMatchObject({
    status: 'cancelled',
    error: 'ENG-1 was taken out of the eligible tickets (it is in Backlog)',
  })
  expect(y.desk.tickets()).toEqual([])
  await y.pass(1)
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.runOf('ENG-1').status).toBe('queued')
})

test('a person who takes up a ticket himself, where the host would have put it, has taken it out of the queue', async () => {
  const y = await yarn(
    configWith({ tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress' } }),
  )
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  y.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await y.settle()
  expect(y.runOf('ENG-1').status).toBe('cancelled')
})

test('other states for the host to move tickets to are nothing that happened to those it has moved', async () => {
  const tracker = {
    driver: 'local',
    path: '/nowhere',
    startedState: 'In Progress',
    whenTicketLeaves: 'stop',
  }
  const y = await yarn(configWith({ tracker }))
  const { wire, work } = await busy(y)
  y.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await y.beating(200, [wire, work])
  await y.done(y.desk.changeSettings({ tracker: { startedState: 'Doing' } }))
  await y.beating(60, [wire, work])
  expect(wire.heard.filter(({ type }) => type === 'cancel')).toEqual([])
  y.tracker.put(ticket('ENG-1', { state: 'Cancelled' }))
  await y.settle()
  expect(wire.heard.filter(({ type }) => type === 'cancel')).toHaveLength(1)
})

test('a run that a person queued for a ticket that is not eligible stays in the queue', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  await y.done(y.desk.runTicket('ENG-1'))
  y.tracker.put(ticket('ENG-1', { state: 'Icebox' }))
  await y.settle()
  expect(y.runOf('ENG-1').status).toBe('queued')
})

test('a run that was interrupted waits on although its ticket is where the host itself has put it', async () => {
  const y = await yarn(
    configWith({ tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress' } }),
  )
  const { wire } = await busy(y)
  y.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await y.settle()
  await wire.drop()
  await y.pass(300)
  expect(y.runOf('ENG-1').status).toBe('queued')
  y.tracker.put(ticket('ENG-1', { state: 'Cancelled' }))
  await y.settle()
  expect(y.runOf('ENG-1').status).toBe('cancelled')
})

test.each([
  ['finish', []],
  ['stop', ['cancel']],
] as const)('with whenTicketLeaves %s, the worker of a running run is told %j', async (policy, told) => {
  const y = await yarn(
    configWith({ tracker: { driver: 'local', path: '/nowhere', whenTicketLeaves: policy } }),
  )
  const { wire } = await busy(y)
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  expect(wire.heard.filter(({ type }) => type === 'cancel').map(({ type }) => type)).toEqual(told)
})

test('a hundred runs go to a fleet with room for all of them in one go, each once', async () => {
  const y = await yarn(configWith({}))
  const wires = [(await enroll(y, 'a', 64)).wire, (await enroll(y, 'b', 64)).wire]
  y.tracker.put(...Array.from({ length: 100 }, (_, at) => ticket(`ENG-${at}`)))
  await y.settle()
  const runs = wires.flatMap(({ heard }) =>
    heard.flatMap((frame) => (frame.type === 'dispatch' ? [frame.lease.runId] : [])),
  )
  expect([runs.length, new Set(runs).size]).toEqual([100, 100])
})

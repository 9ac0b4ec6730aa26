/** The queue: which runs wait, in which order they are dispatched, and the reasons that people see. */
import { expect, test } from '@jest/globals'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import { no, yes } from '../../core/result.ts'
import { unlistedReason } from '../../core/tickets/blockers.ts'
import {
  acceptRun,
  config,
  configWith,
  enroll,
  type HostConversation,
  offerRun,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const reason = (host: HostConversation, identifier: string) => host.runOf(identifier).queueReason

function placementOf(host: HostConversation, identifier: string) {
  const answer = host.hostApi.placement(host.runOf(identifier).id)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

async function dispatchedInOrder(host: HostConversation, count: number): Promise<string[]> {
  const { connection } = await enroll(host, 'worker', 1)
  for (let at = 0; at < count; at++) {
    const work = new Work(connection.lastReceived('dispatch'))
    await connection.send(work.accept(), work.complete())
  }
  return connection.received.flatMap((frame) =>
    frame.type === 'dispatch' ? [frame.job.run.ticket.identifier] : [],
  )
}

test('runs are ordered by priority (1, 2, 3, 4, 0), then by the age of their tickets', async () => {
  const host = await startHost()
  const made = [
    ['none', 0, 1],
    ['low', 4, 1],
    ['urgent, newer', 1, 9],
    ['normal', 3, 1],
    ['high', 2, 1],
    ['urgent, older', 1, 2],
  ] as const
  for (const [name, priority, day] of made) {
    host.tracker.put(ticket(name, { priority, createdAt: `2025-12-0${day}T00:00:00.000Z` }))
    await host.advance(1)
  }
  expect(await dispatchedInOrder(host, 6)).toEqual([
    'urgent, older',
    'urgent, newer',
    'high',
    'normal',
    'low',
    'none',
  ])
})

test('the eligible tickets are shown in the order in which they are queued', async () => {
  const host = await startHost()
  host.tracker.put(ticket('low', { priority: 4 }), ticket('none'), ticket('urgent', { priority: 1 }))
  await host.settle()
  expect(host.hostApi.tickets().map(({ identifier }) => identifier)).toEqual(['urgent', 'low', 'none'])
})

test('a retried run takes its place by its ticket’s priority and age', async () => {
  const host = await startHost()
  host.tracker.put(ticket('old'))
  await host.settle()
  const { id } = host.runOf('old')
  await host.succeeded(host.hostApi.cancelRun(id))
  host.tracker.put(ticket('new', { createdAt: '2025-12-09T00:00:00.000Z' }))
  await host.advance(5)
  await host.succeeded(host.hostApi.retryRun(id))
  expect(await dispatchedInOrder(host, 2)).toEqual(['old', 'new'])
})

test('work spreads: the worker with the most free slots gets the next run', async () => {
  const host = await startHost()
  const small = await enroll(host, 'small', 1)
  const big = await enroll(host, 'big', 3)
  host.tracker.put(...['1', '2', '3', '4'].map((n) => ticket(`ENG-${n}`)))
  await host.settle()
  expect([small.connection.countReceived('dispatch'), big.connection.countReceived('dispatch')]).toEqual([
    1, 3,
  ])
})

test('`no workers connected`', async () => {
  const host = await startHost()
  const { connection } = await enroll(host, 'away')
  await connection.drop()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(reason(host, 'ENG-1')).toBe(FLEET_REASONS.away)
  expect(placementOf(host, 'ENG-1')).toMatchObject({
    reason: FLEET_REASONS.away,
    workers: [{ name: 'away', free: 2, reason: 'not connected' }],
  })
})

test('a run waits while every connected worker is draining', async () => {
  const host = await startHost()
  const { workerId } = await enroll(host)
  await host.succeeded(host.hostApi.drainWorker(workerId))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(reason(host, 'ENG-1')).toBe(FLEET_REASONS.draining)
  expect(placementOf(host, 'ENG-1').workers).toMatchObject([{ reason: 'draining' }])
})

test('`fleet at capacity`', async () => {
  const host = await startHost()
  await acceptRun(host, 'ENG-1', 1)
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(reason(host, 'ENG-2')).toBe(FLEET_REASONS.full)
  expect(placementOf(host, 'ENG-2').workers).toMatchObject([{ free: 0, reason: 'all 1 slots taken' }])
})

test('`fleet at capacity` beside a worker that drains', async () => {
  const host = await startHost()
  await acceptRun(host, 'ENG-1', 1)
  const second = await enroll(host, 'other')
  await host.succeeded(host.hostApi.drainWorker(second.workerId))
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(reason(host, 'ENG-2')).toBe(FLEET_REASONS.full)
})

test('`waiting for <ticket identifiers>`', async () => {
  const host = await startHost()
  await enroll(host, 'worker', 9)
  host.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { id: 'uuid-2', state: 'In Progress' }),
    ticket('ENG-3', { blockedBy: ['ENG-1', 'uuid-2'] }),
  )
  await host.settle()
  expect(reason(host, 'ENG-3')).toBe('waiting for ENG-1, ENG-2')
  expect(placementOf(host, 'ENG-3').reason).toBe('waiting for ENG-1, ENG-2')
})

test('a blocked run is dispatched when its blockers are closed, and not before the last of them', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  host.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { state: 'In Progress' }),
    ticket('ENG-3', { blockedBy: ['ENG-1', 'ENG-2'] }),
  )
  await host.settle()
  host.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await host.settle()
  expect(reason(host, 'ENG-3')).toBe('waiting for ENG-2')
  expect(connection.hasReceived('dispatch')).toBe(false)
  host.tracker.close(ticket('ENG-2', { state: 'Done' }))
  await host.settle()
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('a blocked run waits after a restart until the tracker says that its blockers are closed', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  host.tracker.answer = no('unavailable', 'the tracker is away')
  await host.crash()
  const connection = await reconnect(host, worker)
  await host.advance(20)
  expect(connection.hasReceived('dispatch')).toBe(false)
  expect(reason(host, 'ENG-2')).toBe(unlistedReason(['ENG-1']))
  host.tracker.answer = undefined
  host.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await host.advance(60)
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-2')
})

test('a run does not wait after a restart for a blocker that the tracker does not list', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  host.tracker.answer = yes({ tickets: [], problems: [] })
  await host.crash()
  const connection = await reconnect(host, worker)
  await host.advance(20)
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-2')
})

test('a blocked run does not delay the runs behind it', async () => {
  const host = await startHost()
  const { connection } = await enroll(host, 'worker', 1)
  host.tracker.put(
    ticket('ENG-1', { state: 'In Progress' }),
    ticket('ENG-2', { priority: 1, blockedBy: ['ENG-1'] }),
    ticket('ENG-3', { priority: 4 }),
  )
  await host.settle()
  expect(connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-3')
})

test('a run that is blocked only after it was queued waits from then on', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }), ticket('ENG-2'))
  await host.settle()
  host.tracker.put(ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  const { connection } = await enroll(host)
  expect(reason(host, 'ENG-2')).toBe('waiting for ENG-1')
  expect(connection.hasReceived('dispatch')).toBe(false)
})

test('tickets that wait for each other say so', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { blockedBy: ['ENG-2'] }), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  expect(reason(host, 'ENG-1')).toMatch(/^waiting for ENG-2; .*circle/)
})

test('a ticket without a repository waits with a reason that names the cure, until the cure is applied', async () => {
  const host = await startHost(config.replace('"remote":"owner/name"', '"remote":"owner/name","label":"web"'))
  const { connection } = await enroll(host)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(reason(host, 'ENG-1')).toMatch(/^no repository is for ENG-1: give it a label/)
  await host.succeeded(host.hostApi.changeSettings({ repos: { all: { remote: 'owner/all' } } }))
  await host.settle()
  expect(connection.lastReceived('dispatch').job.repo.remote).toBe('owner/all')
})

test('`interrupted: <why>`', async () => {
  const host = await startHost()
  await acceptRun(host)
  await host.advance(165)
  expect(reason(host, 'ENG-1')).toMatch(/^interrupted: the worker did not come back in time/)
})

test('a first run never shows the reason of a follow-up: a worker that connects takes the run, and the reason goes', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await enroll(host)
  expect(host.runOf('ENG-1')).not.toHaveProperty('queueReason')
})

test('placement of a run that was dispatched names its worker', async () => {
  const host = await startHost()
  const { worker } = await offerRun(host)
  expect(placementOf(host, 'ENG-1')).toMatchObject({ worker: worker.workerId })
  expect(placementOf(host, 'ENG-1')).not.toHaveProperty('reason')
})

test('placement of a finished run names its status', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete())
  expect(placementOf(host, 'ENG-1').reason).toContain('completed')
})

test('eligibility is decided again when the configuration changes', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Ready' }))
  await host.settle()
  expect(host.allRuns()).toEqual([])
  await host.succeeded(host.hostApi.changeSettings({ tracker: { eligible: { states: ['ready'] } } }))
  await host.settle()
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('a queued run leaves the queue when a person makes its ticket ineligible', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await host.restart()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  expect(host.runOf('ENG-1')).toMatchObject({
    status: 'cancelled',
    error: expect.stringMatching(/^ENG-1 .*\bBacklog\b/),
  })
  expect(host.hostApi.tickets()).toEqual([])
  await host.advance(1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('a person who moves a ticket to the state that the host would choose takes it out of the queue', async () => {
  const host = await startHost(
    configWith({ tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress' } }),
  )
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await host.settle()
  expect(host.runOf('ENG-1').status).toBe('cancelled')
})

test('changing the states that the host moves tickets to does not affect tickets it has moved before', async () => {
  const tracker = {
    driver: 'local',
    path: '/nowhere',
    startedState: 'In Progress',
    whenTicketLeaves: 'stop',
  }
  const host = await startHost(configWith({ tracker }))
  const { connection, work } = await acceptRun(host)
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await host.advanceWithHeartbeats(200, [connection, work])
  await host.succeeded(host.hostApi.changeSettings({ tracker: { startedState: 'Doing' } }))
  await host.advanceWithHeartbeats(60, [connection, work])
  expect(connection.received.filter(({ type }) => type === 'cancel')).toEqual([])
  host.tracker.put(ticket('ENG-1', { state: 'Cancelled' }))
  await host.settle()
  expect(connection.received.filter(({ type }) => type === 'cancel')).toHaveLength(1)
})

test('a run that a person queued for a ticket that is not eligible stays in the queue', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  await host.succeeded(host.hostApi.runTicket('ENG-1'))
  host.tracker.put(ticket('ENG-1', { state: 'Icebox' }))
  await host.settle()
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('an interrupted run stays queued although its ticket is where the host has moved it', async () => {
  const host = await startHost(
    configWith({ tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress' } }),
  )
  const { connection } = await acceptRun(host)
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await host.settle()
  await connection.drop()
  await host.advance(300)
  expect(host.runOf('ENG-1').status).toBe('queued')
  host.tracker.put(ticket('ENG-1', { state: 'Cancelled' }))
  await host.settle()
  expect(host.runOf('ENG-1').status).toBe('cancelled')
})

test.each([
  ['finish', []],
  ['stop', ['cancel']],
] as const)('with whenTicketLeaves %s, the worker of a running run receives %j', async (policy, received) => {
  const host = await startHost(
    configWith({ tracker: { driver: 'local', path: '/nowhere', whenTicketLeaves: policy } }),
  )
  const { connection } = await acceptRun(host)
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  expect(connection.received.filter(({ type }) => type === 'cancel').map(({ type }) => type)).toEqual(
    received,
  )
})

test('a hundred runs are dispatched at once to workers with enough slots, each run once', async () => {
  const host = await startHost(configWith({}))
  const connections = [(await enroll(host, 'a', 64)).connection, (await enroll(host, 'b', 64)).connection]
  host.tracker.put(...Array.from({ length: 100 }, (_, at) => ticket(`ENG-${at}`)))
  // Many tickets are judged in several turns.
  await host.advance(0)
  const runs = connections.flatMap(({ received }) =>
    received.flatMap((frame) => (frame.type === 'dispatch' ? [frame.lease.runId] : [])),
  )
  expect([runs.length, new Set(runs).size]).toEqual([100, 100])
})

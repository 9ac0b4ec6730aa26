/** The transitions of a run, row by row: from an eligible ticket to its end, and what people may do with it. */
import { expect, test } from '@jest/globals'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import type { Result } from '../../core/result.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  configWith,
  cost,
  enroll,
  inMemoryOnly,
  offerRun,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const prUrl = 'https://example.com/owner/name/pull/7'

test('a ticket becomes eligible: a new run, queued', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.runOf('ENG-1')).toEqual({
    id: expect.stringMatching(/^run-[0-9a-f]{32}$/),
    ticket: ticket('ENG-1', { repo: 'main' }),
    status: 'queued',
    queueReason: FLEET_REASONS.away,
    sandbox: { provider: 'bwrap' },
    createdAt: '2026-01-01T00:00:01.000Z',
    queuedAt: '2026-01-01T00:00:01.000Z',
    costs: [],
  })
})

test('a ticket that is not eligible becomes none', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  expect(host.allRuns()).toEqual([])
  expect(host.hostApi.tickets()).toEqual([])
})

test('a ticket with an active run gets no second one, however often the tracker is polled', async () => {
  const host = await startHost()
  await acceptRun(host)
  for (let times = 0; times < 3; times++) {
    host.tracker.announceChange()
    await host.settle()
  }
  expect(host.allRuns()).toHaveLength(1)
})

test.each([['completed'], ['failed'], ['cancelled']] as const)(
  'a ticket whose run has %s gets no other run before it changes state',
  async (status) => {
    const host = await startHost()
    const { connection, work } = await acceptRun(host)
    await connection.send(work.complete({ status }))
    host.tracker.put(ticket('ENG-1', { title: 'another title', updatedAt: '2026-01-02T00:00:00.000Z' }))
    await host.advance(60)
    expect(host.allRuns()).toHaveLength(1)
    host.tracker.put(ticket('ENG-1', { state: 'In Review' }))
    await host.advance(60)
    expect(host.allRuns()).toHaveLength(1)
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    expect(host.allRuns().map((run) => run.status)).toEqual(['queued', status])
  },
)

test('a ticket that left its state and came back while its run was active gets no second run after it', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await host.advance(1)
  host.tracker.put(ticket('ENG-1'))
  await host.advance(1)
  await connection.send(work.complete())
  host.tracker.announceChange()
  await host.settle()
  expect(host.allRuns()).toHaveLength(1)
})

test('`run-patch` with a status moves the run only forward', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const seen: string[] = []
  for (const status of ['running', 'preparing', 'running', 'finalizing', 'running'] as const) {
    await connection.send(work.patch({ status }))
    seen.push(host.run(runId).status)
  }
  expect(seen).toEqual(['running', 'running', 'running', 'finalizing', 'finalizing'])
  expect(await host.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'status finalizing',
  ])
})

test('`run-patch` may skip running', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.patch({ status: 'finalizing' }))
  expect(host.run(runId).status).toBe('finalizing')
})

test('`run-patch` reports session, pull request, sandbox and costs', async () => {
  const host = await startHost()
  const { connection, work, worker, runId } = await acceptRun(host)
  await connection.send(
    work.patch({ agentSessionId: 's-1', sandbox: { provider: 'bwrap', id: 'box-1' } }),
    work.patch({ prUrl, prState: 'draft', costs: [cost(1)] }),
  )
  expect(host.run(runId)).toMatchObject({
    agentSessionId: 's-1',
    prUrl,
    sandbox: { provider: 'bwrap', id: 'box-1', workerId: worker.workerId, workerName: 'worker' },
    costs: [{ label: 'run', costUsd: 1 }],
    costTotals: { costUsd: 1, inputTokens: 10 },
  })
})

test('`run-patch` cannot end a run', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send({ ...work.running(), patch: { status: 'completed' } })
  expect(connection.lastReceived('rejected').code).toBe('malformed')
})

test('`run-complete`: its status; finishedAt, result, costs, prUrl, sandbox.retainedUntil set', async () => {
  const host = await startHost()
  const { connection, work, worker, runId } = await acceptRun(host)
  await host.advance(20)
  await connection.send(
    work.running(),
    work.complete({
      result: { branch: 'eng-1', summary: 'did it', artifacts: ['a.txt'] },
      costs: [cost(0.25)],
      prUrl,
      prState: 'open',
      agentSessionId: 's-1',
      sandbox: { provider: 'bwrap', id: 'box-1' },
    }),
  )
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    startedAt: '2026-01-01T00:00:01.000Z',
    finishedAt: '2026-01-01T00:00:21.000Z',
    result: { prUrl, branch: 'eng-1', summary: 'did it', artifacts: ['a.txt'] },
    costs: [{ label: 'run', costUsd: 0.25 }],
    prUrl,
    agentSessionId: 's-1',
    sandbox: {
      provider: 'bwrap',
      id: 'box-1',
      workerId: worker.workerId,
      retainedUntil: '2026-01-02T00:00:21.000Z',
    },
  })
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
})

test('`run-complete` with failure: failed, with its error', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed', error: 'the tests do not pass' }))
  expect(host.run(runId)).toMatchObject({ status: 'failed', error: 'the tests do not pass' })
})

test('costs that are reported on the way and again at the end count once', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(
    work.patch({ costs: [cost(1)] }),
    work.patch({ costs: [cost(1), cost(2)] }),
    work.complete({ costs: [cost(1), cost(2)] }),
  )
  expect(host.run(runId).costTotals?.costUsd).toBe(3)
})

test('a first execution’s costs are labelled `run`, an attempt’s after it `attempt N`, whatever the worker calls them', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.patch({ costs: [cost(1)] }))
  await host.advance(165)
  const again = await reconnect(host, worker)
  const second = new Work(again.lastReceived('dispatch'))
  await again.send(second.accept(), second.complete({ status: 'failed', costs: [cost(2)] }))
  await host.succeeded(host.hostApi.retryRun(runId))
  const third = new Work(again.lastReceived('dispatch'))
  await again.send(third.accept(), third.complete({ costs: [cost(4)] }))
  expect(host.run(runId).costs.map(({ label, costUsd }) => [label, costUsd])).toEqual([
    ['run', 1],
    ['attempt 2', 2],
    ['attempt 3', 4],
  ])
  expect(host.run(runId).costTotals?.costUsd).toBe(7)
})

// ---- cancel ------------------------------------------------------------------------------------------------------

test('cancel of a queued run takes effect immediately', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const run = await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-1').id))
  expect(run).toMatchObject({ status: 'cancelled', finishedAt: '2026-01-01T00:00:01.000Z' })
  expect(run).not.toHaveProperty('queueReason')
  const { connection } = await enroll(host)
  expect(connection.hasReceived('dispatch')).toBe(false)
})

test('cancel of a run whose dispatch is unanswered takes effect immediately, and the worker receives `cancel`', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  expect((await host.succeeded(host.hostApi.cancelRun(runId))).status).toBe('cancelled')
  await connection.send(work.accept(), work.complete())
  expect(host.transcript[0]).toBe('host → worker  lease-lost ENG-1: cancelled by a person')
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  expect(host.run(runId).status).toBe('cancelled')
})

test('a run that is cancelled between its grant and its dispatch is never dispatched', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const { id } = host.runOf('ENG-1')
  host.beforeCommit('lease', () => void host.hostApi.cancelRun(id))
  const { connection } = await enroll(host)
  expect(connection.hasReceived('dispatch')).toBe(false)
  expect(host.run(id).status).toBe('cancelled')
  expect(host.hostApi.fleet().workers[0]?.activeRuns).toBe(0)
})

test('cancel of an active run: `cancel` is sent, and the run stays in its status until the worker’s run-complete', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running())
  expect((await host.succeeded(host.hostApi.cancelRun(runId))).status).toBe('running')
  await host.advance(10)
  await connection.send(work.event('stopping'), work.complete({ status: 'cancelled', costs: [cost(1)] }))
  expectRecorded(host.transcript.slice(1))
  expect(host.run(runId)).toMatchObject({ status: 'cancelled', costs: [{ costUsd: 1 }] })
})

inMemoryOnly('through a socket, the answer to the first of two frames comes before the second is sent')(
  'a worker that does not end a cancelled run within 15 s is fenced off, and the run is cancelled',
  async () => {
    const host = await startHost()
    const { connection, work, runId } = await acceptRun(host)
    await host.succeeded(host.hostApi.cancelRun(runId))
    await host.advance(14)
    expect(host.run(runId).status).toBe('preparing')
    await host.advance(1)
    expect(host.run(runId).status).toBe('cancelled')
    await connection.send(work.running(), work.complete())
    expectRecorded(host.transcript)
    expect(host.run(runId).status).toBe('cancelled')
  },
)

test('the outcome of a worker that finishes during a cancel counts', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await connection.send(work.complete({ prUrl }))
  expect(host.run(runId)).toMatchObject({ status: 'completed', prUrl })
})

test('cancelling twice sends one `cancel`, and the 15 s begin with the first', async () => {
  const host = await startHost()
  const { connection, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(10)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(5)
  expect(connection.countReceived('cancel')).toBe(1)
  expect(host.run(runId).status).toBe('cancelled')
})

test('cancel while the worker is disconnected: sent when it reconnects, cancelled after 15 s in any case', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.drop()
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(10)
  const again = await reconnect(host, worker, work)
  expect(again.lastReceived('cancel').leaseId).toBe(work.id)
  await host.advance(5)
  expect(host.run(runId).status).toBe('cancelled')
})

test('a worker that reconnects without the lease it was to cancel: the run is cancelled at once', async () => {
  const host = await startHost()
  const { worker, connection, runId } = await acceptRun(host)
  await connection.drop()
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(1)
  await reconnect(host, worker)
  expect(host.run(runId).status).toBe('cancelled')
})

test('a worker that disconnects before its cancelled run ended: cancelled after 15 s, not queued again', async () => {
  const host = await startHost()
  const { connection, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await connection.drop()
  await host.advance(400)
  expect(host.run(runId).status).toBe('cancelled')
  expect(host.allRuns()).toHaveLength(1)
})

test('cancel of a run that is already terminal is a no-op; the run is returned unchanged', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete())
  const before = host.run(runId)
  await host.advance(5)
  expect(await host.succeeded(host.hostApi.cancelRun(runId))).toEqual(before)
  expect(connection.hasReceived('cancel')).toBe(false)
})

test('cancel, retry and discard of an unknown run', async () => {
  const host = await startHost()
  for (const asked of [
    host.hostApi.cancelRun('run-0'),
    host.hostApi.retryRun('run-0'),
    host.hostApi.discardRun('run-0'),
  ])
    expect(await host.settled(asked)).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
  for (const answer of [
    host.hostApi.run('run-0'),
    host.hostApi.placement('run-0'),
    host.hostApi.runEvents('run-0', {}),
  ])
    expect(answer).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
})

// ---- retry -------------------------------------------------------------------------------------------------------

test('retry: queued; result, error, startedAt, finishedAt, queueReason cleared; prUrl, costs kept', async () => {
  const host = await startHost()
  const { connection, work, runId, worker } = await acceptRun(host)
  await connection.send(
    work.complete({
      status: 'failed',
      error: 'no luck',
      result: { summary: 'half', artifacts: [] },
      costs: [cost(1)],
      prUrl,
      prState: 'draft',
    }),
  )
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  await host.advance(5)
  const run = await host.succeeded(host.hostApi.retryRun(runId))
  expect(run).toMatchObject({
    id: runId,
    status: 'queued',
    queuedAt: '2026-01-01T00:00:06.000Z',
    queueReason: FLEET_REASONS.draining,
    prUrl,
    costs: [{ costUsd: 1 }],
  })
  for (const gone of ['result', 'error', 'startedAt', 'finishedAt']) expect(run).not.toHaveProperty(gone)
  expect(host.allRuns()).toHaveLength(1)
})

test.each([['queued'], ['preparing'], ['running'], ['finalizing']])(
  'retry: conflict unless terminal: %s',
  async (status) => {
    const host = await startHost()
    const { connection, work, runId } = await offerRun(host)
    if (status !== 'queued') await connection.send(work.accept())
    if (status === 'running' || status === 'finalizing') await connection.send(work.patch({ status }))
    expect(host.run(runId).status).toBe(status)
    expect(await host.settled(host.hostApi.retryRun(runId))).toMatchObject({
      ok: false,
      refusal: { kind: 'conflict' },
    })
  },
)

test('retry: conflict when the ticket has another active run', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed' }))
  await host.succeeded(host.hostApi.runTicket('ENG-1'))
  const refused = await host.settled(host.hostApi.retryRun(runId))
  expect(refused).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
})

test('two retries in the same tick make one', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed' }))
  const answers = [host.hostApi.retryRun(runId), host.hostApi.retryRun(runId)]
  await host.settle()
  expect((await Promise.all(answers)).map(({ ok }) => ok)).toEqual([true, false])
  expect(connection.countReceived('dispatch')).toBe(2)
})

test.each([['completed'], ['failed'], ['cancelled']] as const)(
  'a run that has %s can be retried',
  async (status) => {
    const host = await startHost()
    const { connection, work, runId } = await acceptRun(host)
    await connection.send(work.complete({ status }))
    await host.succeeded(host.hostApi.retryRun(runId))
    const next = new Work(connection.lastReceived('dispatch'))
    expect([next.runId, next.id === work.id]).toEqual([runId, false])
    await connection.send(next.accept(), next.complete())
    expect(host.run(runId).status).toBe('completed')
  },
)

test('a retried run refuses the frames of its earlier lease: the lease id is the fencing token', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(15)
  await host.succeeded(host.hostApi.retryRun(runId))
  const next = new Work(connection.lastReceived('dispatch'))
  await connection.send(next.accept())
  await connection.send(work.running(), work.complete({ status: 'failed', error: 'from the past' }))
  expect(host.run(runId).status).toBe('preparing')
  await connection.send(next.running(), next.complete())
  expect(host.run(runId)).toMatchObject({ status: 'completed' })
  expect(host.run(runId)).not.toHaveProperty('error')
})

test('the events of a run name its worker and its agent', async () => {
  const host = await startHost(configWith({ agent: { provider: 'agentB' } }))
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running())
  const [queued, preparing, running] = await host.readEvents(runId)
  expect(queued).not.toHaveProperty('worker')
  expect(preparing).toMatchObject({ to: 'preparing', worker: 'worker' })
  expect(preparing).not.toHaveProperty('provider')
  expect(running).toMatchObject({ to: 'running', provider: 'agentB' })
})

test('the events of a retried run continue after those of its first attempt', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed', error: 'x' }))
  await host.succeeded(host.hostApi.retryRun(runId))
  const events = await host.readEvents(runId)
  expect(events.map(({ index }) => index)).toEqual([0, 1, 2, 3])
  expect(events.at(-1)).toMatchObject({ type: 'status', from: 'failed', to: 'queued' })
})

// ---- start by hand -----------------------------------------------------------------------------------------------

test('a ticket can be run by hand, by its id or its identifier, also when it is not eligible', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { id: 'uuid-1', state: 'Backlog' }))
  await host.settle()
  const run = await host.succeeded(host.hostApi.runTicket('ENG-1'))
  expect(run).toMatchObject({ status: 'queued', queueReason: FLEET_REASONS.away })
  await host.succeeded(host.hostApi.cancelRun(run.id))
  expect((await host.succeeded(host.hostApi.runTicket('uuid-1'))).id).not.toBe(run.id)
})

test('run by hand: conflict if the ticket already has an active run', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  expect(await host.settled(host.hostApi.runTicket('ENG-1'))).toMatchObject({
    ok: false,
    refusal: { kind: 'conflict' },
  })
  await connection.send(work.complete())
  expect((await host.settled(host.hostApi.runTicket('ENG-1'))).ok).toBe(true)
})

test('two requests to run a ticket in the same tick create one run', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.settle()
  const asked = [host.hostApi.runTicket('ENG-1'), host.hostApi.runTicket('ENG-1')]
  await host.settle()
  expect((await Promise.all(asked)).map(({ ok }) => ok)).toEqual([true, false])
})

test('run by hand: an unknown ticket', async () => {
  const host = await startHost()
  expect(await host.settled(host.hostApi.runTicket('ENG-9'))).toMatchObject({
    ok: false,
    refusal: { kind: 'unknown' },
  })
})

test('a sandbox is retained for sandbox.retentionHours', async () => {
  const host = await startHost(configWith({ sandbox: { retentionHours: 5 } }))
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), work.complete({ sandbox: { provider: 'bwrap', id: 'box-1' } }))
  expect(host.run(runId).sandbox.retainedUntil).toBe('2026-01-01T05:00:01.000Z')
})

// ---- discard -----------------------------------------------------------------------------------------------------

const withSandbox = { sandbox: { provider: 'bwrap', id: 'box-1' } } as const

test('discard: the worker that holds the sandbox receives `discard`', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete(withSandbox))
  await host.advanceWithHeartbeats(60, [connection])
  const run = await host.succeeded(host.hostApi.discardRun(runId))
  expect(connection.lastReceived('discard')).toEqual({ type: 'discard', runId })
  expect(run.sandbox).not.toHaveProperty('id')
  expect(run.sandbox.retainedUntil).toBe('2026-01-01T00:01:01.000Z')
})

test('discard: a disconnected worker receives it when it reconnects, and not again once it surely has', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete(withSandbox))
  await connection.drop()
  await host.succeeded(host.hostApi.discardRun(runId))
  const again = await reconnect(host, worker)
  expect(again.lastReceived('discard').runId).toBe(runId)
  await host.advanceWithHeartbeats(45, [again])
  const third = await reconnect(host, worker)
  expect(third.lastReceived('discard').runId).toBe(runId)
  await host.advanceWithHeartbeats(60, [third])
  const fourth = await reconnect(host, worker)
  expect(fourth.hasReceived('discard')).toBe(false)
})

test('discard: sent into a dead connection, the worker receives it when it reconnects', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete(withSandbox))
  await host.advance(20)
  await host.succeeded(host.hostApi.discardRun(runId))
  expect(connection.hasReceived('discard')).toBe(true)
  await host.advance(60)
  expect(connection.closed).toBeDefined()
  const again = await reconnect(host, worker)
  expect(again.lastReceived('discard').runId).toBe(runId)
})

test('discard: heartbeats on their way before it prove nothing, however many', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete(withSandbox))
  await host.advanceWithHeartbeats(60, [connection])
  await host.succeeded(host.hostApi.discardRun(runId))
  for (let beat = 0; beat < 5; beat++) await connection.sendHeartbeat()
  await connection.drop()
  expect((await reconnect(host, worker)).hasReceived('discard')).toBe(true)
})

test('discard: the sandbox of a later execution stays', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed', ...withSandbox }))
  await host.succeeded(host.hostApi.discardRun(runId))
  await host.succeeded(host.hostApi.retryRun(runId))
  const second = new Work(connection.lastReceived('dispatch'))
  await connection.send(second.accept(), second.complete(withSandbox))
  await connection.drop()
  expect((await reconnect(host, worker)).hasReceived('discard')).toBe(false)
})

test('discard: an execution that did not begin leaves it waiting', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ status: 'failed', ...withSandbox }))
  await host.succeeded(host.hostApi.discardRun(runId))
  await host.succeeded(host.hostApi.retryRun(runId))
  expect(connection.countReceived('dispatch')).toBe(2)
  await connection.drop()
  expect((await reconnect(host, worker)).hasReceived('discard')).toBe(true)
})

test('discard: conflict while the run is active or without a sandbox, gone the second time', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  expect(await host.settled(host.hostApi.discardRun(runId))).toMatchObject({ refusal: { kind: 'conflict' } })
  await connection.send(work.complete(withSandbox))
  expect((await host.settled(host.hostApi.discardRun(runId))).ok).toBe(true)
  expect(await host.settled(host.hostApi.discardRun(runId))).toMatchObject({ refusal: { kind: 'gone' } })
})

test('discard: conflict when the run left no sandbox', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete())
  expect(await host.settled(host.hostApi.discardRun(runId))).toMatchObject({ refusal: { kind: 'conflict' } })
})

// ---- while nothing can be written --------------------------------------------------------------------------------

test('while the disk is full no change is accepted', async () => {
  const host = await startHost()
  const { runId, worker } = await acceptRun(host)
  host.fillDisk()
  const all: readonly Promise<Result<unknown>>[] = [
    host.hostApi.cancelRun(runId),
    host.hostApi.retryRun(runId),
    host.hostApi.runTicket('ENG-1'),
    host.hostApi.drainWorker(worker.workerId),
  ]
  for (const asked of all)
    expect(await host.settled(asked)).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
  expect(host.hostApi.mintPairingToken()).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
})

test('a request is answered only after its change is on disk', async () => {
  const host = await startHost()
  const { runId, connection } = await acceptRun(host)
  host.beforeCommit('lease', () => host.fillDisk())
  let answered = false
  const asked = host.hostApi.cancelRun(runId).then((answer) => {
    answered = true
    return answer
  })
  await host.settle()
  expect([answered, connection.hasReceived('cancel')]).toEqual([false, false])
  await host.freeDisk()
  expect(connection.hasReceived('cancel')).toBe(true)
  expect((await asked).ok).toBe(true)
})

// ---- lists -------------------------------------------------------------------------------------------------------

test('runs are listed newest first, by page, status and ticket', async () => {
  const host = await startHost()
  for (const name of ['ENG-1', 'ENG-2', 'ENG-3']) {
    host.tracker.put(ticket(name))
    await host.advance(1)
  }
  await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-2').id))
  const names = (query: Parameters<typeof host.hostApi.runs>[0]) => {
    const found = host.hostApi.runs(query)
    if (!found.ok) throw new Error(found.refusal.message)
    return [found.value.runs.map((run) => run.ticket.identifier).join(' '), found.value.more]
  }
  expect(names({})).toEqual(['ENG-3 ENG-2 ENG-1', false])
  expect(names({ limit: 2 })).toEqual(['ENG-3 ENG-2', true])
  expect(names({ limit: 2, before: host.runOf('ENG-2').id })).toEqual(['ENG-1', false])
  expect(names({ status: ['queued'] })).toEqual(['ENG-3 ENG-1', false])
  expect(names({ status: ['queued', 'cancelled'], limit: 2 })).toEqual(['ENG-3 ENG-2', true])
  expect(names({ ticket: 'ENG-1' })).toEqual(['ENG-1', false])
})

test('a run’s events are read from any index on, as many as asked for', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(...Array.from({ length: 10 }, () => work.event()))
  const indexes = async (query: { after?: number; limit?: number }) =>
    (await host.readEvents(runId, query)).map(({ index }) => index)
  expect(await indexes({ after: 8 })).toEqual([9, 10, 11])
  expect(await indexes({ after: 3, limit: 2 })).toEqual([4, 5])
  expect(await indexes({ limit: 1 })).toEqual([0])
  expect(await indexes({ after: 11 })).toEqual([])
})

/** A run's life, row by row: from an eligible ticket to its end, and what people may do to it on the way. */
import { expect, test } from '@jest/globals'
import type { Result } from '../../core/result.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, cost, enroll, inHand, offered, ticket, Work, yarn } from './host-conversation.ts'

const prUrl = 'https://example.com/owner/name/pull/7'

test('a ticket becomes eligible: a new run, queued', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.runOf('ENG-1')).toEqual({
    id: expect.stringMatching(/^run-[0-9a-f]{32}$/),
    ticket: ticket('ENG-1'),
    status: 'queued',
    queueReason: 'no workers connected',
    sandbox: {},
    createdAt: '2026-01-01T00:00:01.000Z',
    queuedAt: '2026-01-01T00:00:01.000Z',
    costs: [],
  })
})

test('a ticket that is not eligible becomes none', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  expect(y.allRuns()).toEqual([])
  expect(y.desk.tickets()).toEqual([])
})

test('a ticket with an active run gets no second one, however often the tracker is looked at', async () => {
  const y = await yarn()
  await busy(y)
  for (let times = 0; times < 3; times++) {
    y.tracker.touch()
    await y.settle()
  }
  expect(y.allRuns()).toHaveLength(1)
})

test.each([['completed'], ['failed'], ['cancelled']] as const)(
  'a ticket whose run has %s gets no other run before it changes state',
  async (status) => {
    const y = await yarn()
    const { wire, work } = await busy(y)
    await wire.say(work.complete({ status }))
    y.tracker.put(ticket('ENG-1', { title: 'another title', updatedAt: '2026-01-02T00:00:00.000Z' }))
    await y.pass(60)
    expect(y.allRuns()).toHaveLength(1)
    y.tracker.put(ticket('ENG-1', { state: 'In Review' }))
    await y.pass(60)
    expect(y.allRuns()).toHaveLength(1)
    y.tracker.put(ticket('ENG-1'))
    await y.settle()
    expect(y.allRuns().map((run) => run.status)).toEqual(['queued', status])
  },
)

test('a ticket that left its state and came back while its run was active gets no second run after it', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.tracker.put(ticket('ENG-1', { state: 'In Progress' }))
  await y.pass(1)
  y.tracker.put(ticket('ENG-1'))
  await y.pass(1)
  await wire.say(work.complete())
  y.tracker.touch()
  await y.settle()
  expect(y.allRuns()).toHaveLength(1)
})

test('`run-patch` with a status moves the run only forward', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const seen: string[] = []
  for (const status of ['running', 'preparing', 'running', 'finalizing', 'running'] as const) {
    await wire.say(work.patch({ status }))
    seen.push(y.run(runId).status)
  }
  expect(seen).toEqual(['running', 'running', 'running', 'finalizing', 'finalizing'])
  expect(await y.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'status finalizing',
  ])
})

test('`run-patch` may skip running', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.patch({ status: 'finalizing' }))
  expect(y.run(runId).status).toBe('finalizing')
})

test('`run-patch` tells of session, pull request, sandbox and costs', async () => {
  const y = await yarn()
  const { wire, work, worker, runId } = await busy(y)
  await wire.say(
    work.patch({ agentSessionId: 's-1', sandbox: { provider: 'bwrap', id: 'box-1' } }),
    work.patch({ prUrl, prState: 'draft', costs: [cost(1)] }),
  )
  expect(y.run(runId)).toMatchObject({
    agentSessionId: 's-1',
    prUrl,
    prState: 'draft',
    sandbox: { provider: 'bwrap', id: 'box-1', workerId: worker.workerId },
    costs: [{ label: 'run', costUsd: 1 }],
    costTotals: { costUsd: 1, inputTokens: 10 },
  })
})

test('`run-patch` cannot end a run', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say({ ...work.running(), patch: { status: 'completed' } })
  expect(wire.last('rejected').code).toBe('malformed')
})

test('`run-complete`: its status; finishedAt, result, costs, prUrl, prState, sandbox.retainedUntil set', async () => {
  const y = await yarn()
  const { wire, work, worker, runId } = await busy(y)
  await y.pass(20)
  await wire.say(
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
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    startedAt: '2026-01-01T00:00:01.000Z',
    finishedAt: '2026-01-01T00:00:21.000Z',
    result: { prUrl, branch: 'eng-1', summary: 'did it', artifacts: ['a.txt'] },
    costs: [{ label: 'run', costUsd: 0.25 }],
    prUrl,
    prState: 'open',
    agentSessionId: 's-1',
    sandbox: {
      provider: 'bwrap',
      id: 'box-1',
      workerId: worker.workerId,
      retainedUntil: '2026-01-02T00:00:21.000Z',
    },
  })
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
})

test('`run-complete` with failure: failed, with its error', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete({ status: 'failed', error: 'the tests do not pass' }))
  expect(y.run(runId)).toMatchObject({ status: 'failed', error: 'the tests do not pass' })
})

test('costs that are reported on the way and again at the end count once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(
    work.patch({ costs: [cost(1)] }),
    work.patch({ costs: [cost(1), cost(2)] }),
    work.complete({ costs: [cost(1), cost(2)] }),
  )
  expect(y.run(runId).costTotals?.costUsd).toBe(3)
})

test('a first execution’s costs are labelled `run`, an attempt’s after it `attempt N`, whatever the worker calls them', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.patch({ costs: [cost(1)] }))
  await y.pass(165)
  const again = await back(y, worker)
  const second = new Work(again.last('dispatch'))
  await again.say(second.accept(), second.complete({ status: 'failed', costs: [cost(2)] }))
  await y.done(y.desk.retryRun(runId))
  const third = new Work(again.last('dispatch'))
  await again.say(third.accept(), third.complete({ costs: [cost(4)] }))
  expect(y.run(runId).costs.map(({ label, costUsd }) => [label, costUsd])).toEqual([
    ['run', 1],
    ['attempt 2', 2],
    ['attempt 3', 4],
  ])
  expect(y.run(runId).costTotals?.costUsd).toBe(7)
})

// ---- cancel ------------------------------------------------------------------------------------------------------

test('cancel of a queued run takes effect immediately', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const run = await y.done(y.desk.cancelRun(y.runOf('ENG-1').id))
  expect(run).toMatchObject({ status: 'cancelled', finishedAt: '2026-01-01T00:00:01.000Z' })
  expect(run).not.toHaveProperty('queueReason')
  const { wire } = await enroll(y)
  expect(wire.has('dispatch')).toBe(false)
})

test('cancel of a run whose dispatch is unanswered takes effect immediately, and the worker is told', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  expect((await y.done(y.desk.cancelRun(runId))).status).toBe('cancelled')
  await wire.say(work.accept(), work.complete())
  expect(y.said[0]).toBe('host → worker  lease-lost ENG-1: cancelled by a person')
  expect(wire.has('run-complete-ack')).toBe(false)
  expect(y.run(runId).status).toBe('cancelled')
})

test('a run that is cancelled between its grant and its dispatch is never dispatched', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const { id } = y.runOf('ENG-1')
  y.beforeLanding('lease', () => void y.desk.cancelRun(id))
  const { wire } = await enroll(y)
  expect(wire.has('dispatch')).toBe(false)
  expect(y.run(id).status).toBe('cancelled')
  expect(y.desk.fleet().workers[0]?.activeRuns).toBe(0)
})

test('cancel of an active run: `cancel` is sent, and the run stays in its status until the worker’s run-complete', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.running())
  expect((await y.done(y.desk.cancelRun(runId))).status).toBe('running')
  await y.pass(10)
  await wire.say(work.event('stopping'), work.complete({ status: 'cancelled', costs: [cost(1)] }))
  expectRecorded(y.said.slice(1))
  expect(y.run(runId)).toMatchObject({ status: 'cancelled', costs: [{ costUsd: 1 }] })
})

inHand('the answer to the first of two frames comes before the second is said')(
  'a worker that does not end a cancelled run within 15 s is fenced off, and the run is cancelled',
  async () => {
    const y = await yarn()
    const { wire, work, runId } = await busy(y)
    await y.done(y.desk.cancelRun(runId))
    await y.pass(14)
    expect(y.run(runId).status).toBe('preparing')
    await y.pass(1)
    expect(y.run(runId).status).toBe('cancelled')
    await wire.say(work.running(), work.complete())
    expectRecorded(y.said)
    expect(y.run(runId).status).toBe('cancelled')
  },
)

test('a worker that finishes while it is being cancelled is believed', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await y.done(y.desk.cancelRun(runId))
  await wire.say(work.complete({ prUrl }))
  expect(y.run(runId)).toMatchObject({ status: 'completed', prUrl })
})

test('cancelling twice sends one `cancel`, and the 15 s begin with the first', async () => {
  const y = await yarn()
  const { wire, runId } = await busy(y)
  await y.done(y.desk.cancelRun(runId))
  await y.pass(10)
  await y.done(y.desk.cancelRun(runId))
  await y.pass(5)
  expect(wire.count('cancel')).toBe(1)
  expect(y.run(runId).status).toBe('cancelled')
})

test('cancel while the worker is away: told when it is back, cancelled after 15 s in any case', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.drop()
  await y.done(y.desk.cancelRun(runId))
  await y.pass(10)
  const again = await back(y, worker, work)
  expect(again.last('cancel').leaseId).toBe(work.id)
  await y.pass(5)
  expect(y.run(runId).status).toBe('cancelled')
})

test('a worker that comes back without the lease it was to cancel: the run is cancelled at once', async () => {
  const y = await yarn()
  const { worker, wire, runId } = await busy(y)
  await wire.drop()
  await y.done(y.desk.cancelRun(runId))
  await y.pass(1)
  await back(y, worker)
  expect(y.run(runId).status).toBe('cancelled')
})

test('a worker whose cancelled run is not over when its line breaks: cancelled after 15 s, not queued again', async () => {
  const y = await yarn()
  const { wire, runId } = await busy(y)
  await y.done(y.desk.cancelRun(runId))
  await wire.drop()
  await y.pass(400)
  expect(y.run(runId).status).toBe('cancelled')
  expect(y.allRuns()).toHaveLength(1)
})

test('cancel of a run that is already terminal is a no-op; the run is returned unchanged', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  const before = y.run(runId)
  await y.pass(5)
  expect(await y.done(y.desk.cancelRun(runId))).toEqual(before)
  expect(wire.has('cancel')).toBe(false)
})

test('cancel, retry and discard of an unknown run', async () => {
  const y = await yarn()
  for (const asked of [y.desk.cancelRun('run-0'), y.desk.retryRun('run-0'), y.desk.discardRun('run-0')])
    expect(await y.ask(asked)).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
  for (const answer of [y.desk.run('run-0'), y.desk.placement('run-0'), await y.desk.runEvents('run-0', {})])
    expect(answer).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
})

// ---- retry -------------------------------------------------------------------------------------------------------

test('retry: queued; result, error, startedAt, finishedAt, queueReason cleared; prUrl, prState, costs kept', async () => {
  const y = await yarn()
  const { wire, work, runId, worker } = await busy(y)
  await wire.say(
    work.complete({
      status: 'failed',
      error: 'no luck',
      result: { summary: 'half', artifacts: [] },
      costs: [cost(1)],
      prUrl,
      prState: 'draft',
    }),
  )
  await y.done(y.desk.drainWorker(worker.workerId))
  await y.pass(5)
  const run = await y.done(y.desk.retryRun(runId))
  expect(run).toMatchObject({
    id: runId,
    status: 'queued',
    queuedAt: '2026-01-01T00:00:06.000Z',
    queueReason: 'all workers are draining',
    prUrl,
    prState: 'draft',
    costs: [{ costUsd: 1 }],
  })
  for (const gone of ['result', 'error', 'startedAt', 'finishedAt']) expect(run).not.toHaveProperty(gone)
  expect(y.allRuns()).toHaveLength(1)
})

test.each([['queued'], ['preparing'], ['running'], ['finalizing']])(
  'retry: conflict unless terminal: %s',
  async (status) => {
    const y = await yarn()
    const { wire, work, runId } = await offered(y)
    if (status !== 'queued') await wire.say(work.accept())
    if (status === 'running' || status === 'finalizing') await wire.say(work.patch({ status }))
    expect(y.run(runId).status).toBe(status)
    expect(await y.ask(y.desk.retryRun(runId))).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
  },
)

test('retry: conflict when the ticket has another active run', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete({ status: 'failed' }))
  await y.done(y.desk.runTicket('ENG-1'))
  const refused = await y.ask(y.desk.retryRun(runId))
  expect(refused).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
})

test('two retries in one moment make one', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete({ status: 'failed' }))
  const answers = [y.desk.retryRun(runId), y.desk.retryRun(runId)]
  await y.settle()
  expect((await Promise.all(answers)).map(({ ok }) => ok)).toEqual([true, false])
  expect(wire.count('dispatch')).toBe(2)
})

test.each([['completed'], ['failed'], ['cancelled']] as const)(
  'a run that has %s can be retried',
  async (status) => {
    const y = await yarn()
    const { wire, work, runId } = await busy(y)
    await wire.say(work.complete({ status }))
    await y.done(y.desk.retryRun(runId))
    const next = new Work(wire.last('dispatch'))
    expect([next.runId, next.id === work.id]).toEqual([runId, false])
    await wire.say(next.accept(), next.complete())
    expect(y.run(runId).status).toBe('completed')
  },
)

test('a retried run refuses the frames of its earlier lease: the lease id is the fencing token', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await y.done(y.desk.cancelRun(runId))
  await y.pass(15)
  await y.done(y.desk.retryRun(runId))
  const next = new Work(wire.last('dispatch'))
  await wire.say(next.accept())
  await wire.say(work.running(), work.complete({ status: 'failed', error: 'from the past' }))
  expect(y.run(runId).status).toBe('preparing')
  await wire.say(next.running(), next.complete())
  expect(y.run(runId)).toMatchObject({ status: 'completed' })
  expect(y.run(runId)).not.toHaveProperty('error')
})

test('the events of a retried run go on where those of its first life ended', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete({ status: 'failed', error: 'x' }))
  await y.done(y.desk.retryRun(runId))
  const events = await y.done(y.desk.runEvents(runId, {}))
  expect(events.map(({ index }) => index)).toEqual([0, 1, 2, 3])
  expect(events.at(-1)).toMatchObject({ type: 'status', from: 'failed', to: 'queued' })
})

// ---- start by hand -----------------------------------------------------------------------------------------------

test('a ticket can be run by hand, by its id or its identifier, also when it is not eligible', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { id: 'uuid-1', state: 'Backlog' }))
  await y.settle()
  const run = await y.done(y.desk.runTicket('ENG-1'))
  expect(run).toMatchObject({ status: 'queued', queueReason: 'no workers connected' })
  await y.done(y.desk.cancelRun(run.id))
  expect((await y.done(y.desk.runTicket('uuid-1'))).id).not.toBe(run.id)
})

test('run by hand: conflict if the ticket already has an active run', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  expect(await y.ask(y.desk.runTicket('ENG-1'))).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
  await wire.say(work.complete())
  expect((await y.ask(y.desk.runTicket('ENG-1'))).ok).toBe(true)
})

test('of two who run a ticket in one moment, one gets a run', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.settle()
  const asked = [y.desk.runTicket('ENG-1'), y.desk.runTicket('ENG-1')]
  await y.settle()
  expect((await Promise.all(asked)).map(({ ok }) => ok)).toEqual([true, false])
})

test('run by hand: an unknown ticket', async () => {
  const y = await yarn()
  expect(await y.ask(y.desk.runTicket('ENG-9'))).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
})

// ---- discard -----------------------------------------------------------------------------------------------------

const withSandbox = { sandbox: { provider: 'bwrap', id: 'box-1' } } as const

test('discard: the worker that holds the sandbox is told', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete(withSandbox))
  await y.beating(60, [wire])
  const run = await y.done(y.desk.discardRun(runId))
  expect(wire.last('discard')).toEqual({ type: 'discard', runId })
  expect(run.sandbox).not.toHaveProperty('id')
  expect(run.sandbox.retainedUntil).toBe('2026-01-01T00:01:01.000Z')
})

test('discard: a worker that is away is told when it is back, once', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.complete(withSandbox))
  await wire.drop()
  await y.done(y.desk.discardRun(runId))
  const again = await back(y, worker)
  expect(again.last('discard').runId).toBe(runId)
  await y.pass(1)
  const third = await back(y, worker)
  expect(third.has('discard')).toBe(false)
})

test('discard: conflict while the run is active or without a sandbox, gone the second time', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  expect(await y.ask(y.desk.discardRun(runId))).toMatchObject({ refusal: { kind: 'conflict' } })
  await wire.say(work.complete(withSandbox))
  expect((await y.ask(y.desk.discardRun(runId))).ok).toBe(true)
  expect(await y.ask(y.desk.discardRun(runId))).toMatchObject({ refusal: { kind: 'gone' } })
})

test('discard: conflict when the run left no sandbox', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  expect(await y.ask(y.desk.discardRun(runId))).toMatchObject({ refusal: { kind: 'conflict' } })
})

// ---- while nothing can be written --------------------------------------------------------------------------------

test('while the disk is full nothing is promised', async () => {
  const y = await yarn()
  const { runId, worker } = await busy(y)
  y.fill()
  const all: readonly Promise<Result<unknown>>[] = [
    y.desk.cancelRun(runId),
    y.desk.retryRun(runId),
    y.desk.runTicket('ENG-1'),
    y.desk.drainWorker(worker.workerId),
  ]
  for (const asked of all)
    expect(await y.ask(asked)).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
  expect(y.desk.mintPairingToken()).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
})

test('an answer is given only when what it says is on disk', async () => {
  const y = await yarn()
  const { runId, wire } = await busy(y)
  y.beforeLanding('lease', () => y.fill())
  let answered = false
  const asked = y.desk.cancelRun(runId).then((answer) => {
    answered = true
    return answer
  })
  await y.settle()
  expect([answered, wire.has('cancel')]).toEqual([false, false])
  await y.drain()
  expect(wire.has('cancel')).toBe(true)
  expect((await asked).ok).toBe(true)
})

// ---- lists -------------------------------------------------------------------------------------------------------

test('runs are listed newest first, by page, status and ticket', async () => {
  const y = await yarn()
  for (const name of ['ENG-1', 'ENG-2', 'ENG-3']) {
    y.tracker.put(ticket(name))
    await y.pass(1)
  }
  await y.done(y.desk.cancelRun(y.runOf('ENG-2').id))
  const names = (query: Parameters<typeof y.desk.runs>[0]) => {
    const found = y.desk.runs(query)
    if (!found.ok) throw new Error(found.refusal.message)
    return [found.value.runs.map((run) => run.ticket.identifier).join(' '), found.value.more]
  }
  expect(names({})).toEqual(['ENG-3 ENG-2 ENG-1', false])
  expect(names({ limit: 2 })).toEqual(['ENG-3 ENG-2', true])
  expect(names({ limit: 2, before: y.runOf('ENG-2').id })).toEqual(['ENG-1', false])
  expect(names({ status: ['queued'] })).toEqual(['ENG-3 ENG-1', false])
  expect(names({ status: ['queued', 'cancelled'], limit: 2 })).toEqual(['ENG-3 ENG-2', true])
  expect(names({ ticket: 'ENG-1' })).toEqual(['ENG-1', false])
})

test('a run’s events are read from any index on, as many as asked for', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(...Array.from({ length: 10 }, () => work.event()))
  const indexes = async (query: { after?: number; limit?: number }) =>
    (await y.done(y.desk.runEvents(runId, query))).map(({ index }) => index)
  expect(await indexes({ after: 8 })).toEqual([9, 10, 11])
  expect(await indexes({ after: 3, limit: 2 })).toEqual([4, 5])
  expect(await indexes({ limit: 1 })).toEqual([0])
  expect(await indexes({ after: 11 })).toEqual([])
})

/** Finished work that could not be published: it is published again where it lies, and no agent is asked meanwhile. */
import { expect, test } from '@jest/globals'
import type { RunOutcome } from '../../protocol/frames.ts'
import { UNPUBLISHED_BUNDLE } from '../../protocol/kept-bundle.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  capabilities,
  configWith,
  cost,
  type EnrolledScriptedWorker,
  enroll,
  type HostConversation,
  registerWithCredential,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const PR = 'https://example.com/owner/name/pull/7'
const REFUSED = 'pushing switchyard/eng-1 to owner/name: a rule or a hook of the code host refused the push'
const publishes = { publish: true, continuesSessions: true }

/** The agent is done, and the code host takes none of its work. */
function unpublished(
  host: HostConversation,
  more: Partial<RunOutcome> = {},
  hours = 24,
): Partial<RunOutcome> {
  return {
    status: 'failed',
    failure: 'publish',
    error: REFUSED,
    costs: [cost(2)],
    result: { summary: 'Fixed.', artifacts: ['log.txt', UNPUBLISHED_BUNDLE] },
    agentSessionId: 's-1',
    sandbox: {
      id: 'box-1',
      retainedUntil: new Date(host.clock.now() + hours * 3_600_000).toISOString(),
      unpublished: true,
    },
    ...more,
  }
}

async function finishUnpublished(more: Partial<RunOutcome> = {}, config = {}, can = {}) {
  const host = await startHost(configWith(config))
  const worker = await enroll(host, 'holder', 1, { ...publishes, ...can })
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const { connection } = worker
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.patch({ status: 'finalizing' }))
  await connection.sendHeartbeat(work)
  await connection.send(work.complete(unpublished(host, more)))
  return { host, worker, connection, runId: work.runId }
}

const workOf = ({ connection }: EnrolledScriptedWorker) => new Work(connection.lastReceived('dispatch'))

/** The worker tries again, in vain. */
async function failAgain(worker: EnrolledScriptedWorker, more: Partial<RunOutcome>): Promise<void> {
  const work = workOf(worker)
  await worker.connection.send(
    work.accept(),
    work.complete({ ...more, costs: [], result: { artifacts: [] } }),
  )
}

test('work that a rule refuses for an hour is published in the end, on its worker, and its agent is paid once', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  const retainedUntil = host.run(runId).sandbox.retainedUntil ?? ''
  const more = unpublished(host, { sandbox: { id: 'box-1', retainedUntil, unpublished: true } })
  const idle = await enroll(host, 'idle', 2, publishes)
  host.clearTranscript()
  const begun = host.clock.now()
  const waits: number[] = []
  for (let tries = 1; connection.countReceived('dispatch') < 7; tries += 1) {
    const waitsUntil = /publishing again at (\S+): /.exec(host.run(runId).queueReason ?? '')?.[1] ?? ''
    waits.push((Date.parse(waitsUntil) - host.clock.now()) / 60_000)
    await host.advanceWithHeartbeats(
      waits[tries - 1] === undefined ? 0 : (waits[tries - 1] ?? 0) * 60,
      [connection],
      [idle.connection],
    )
    expect(workOf(worker).job).toMatchObject({ kind: 'publish', branch: 'switchyard/eng-1' })
    if (connection.countReceived('dispatch') < 7) await failAgain(worker, more)
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32])
  expect(host.clock.now() - begun).toBeGreaterThanOrEqual(3_600_000)
  const { job } = workOf(worker)
  expect([job.agent, job.credentials]).toEqual([undefined, {}])
  const last = workOf(worker)
  const { artifacts } = host.store
  for (const name of ['log.txt', UNPUBLISHED_BUNDLE])
    await artifacts.write(runId, name, 0, Buffer.from('kept'), true)
  await connection.send(
    last.accept(),
    last.complete({ prUrl: PR, result: { summary: 'Fixed.', artifacts: [] } }),
  )
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    prUrl: PR,
    costTotals: { costUsd: 2 },
    agentSessionId: 's-1',
    result: { summary: 'Fixed.', artifacts: ['log.txt'] },
  })
  expect(host.run(runId).sandbox.unpublished).toBeUndefined()
  expect(await artifacts.names(runId)).toEqual(['log.txt'])
  expect(idle.connection.hasReceived('dispatch')).toBe(false)
  expectRecorded(host.transcript)
})

test('a run whose work waits says so word for word, also when it is explained', async () => {
  const { host, runId } = await finishUnpublished()
  const reason = `publishing again at ${new Date(host.clock.now() + 60_000).toISOString()}: ${REFUSED}`
  expect(host.run(runId)).toMatchObject({ status: 'queued', queueReason: reason })
  const explained = host.hostApi.explainRun(runId)
  expect(explained).toMatchObject({ value: { run: { queueReason: reason } } })
  if (!explained.ok) return
  expect(explained.value.gates.filter(({ status }) => status !== 'pass')).toEqual([
    { id: 'repository', status: 'wait', message: reason, cure: 'wait, or: switchyard retry ENG-1' },
  ])
})

test('work whose worker is away waits for that worker alone', async () => {
  const { host, connection, runId } = await finishUnpublished()
  const idle = await enroll(host, 'idle', 2, publishes)
  await connection.drop()
  await host.advanceWithHeartbeats(10 * 60, [idle.connection])
  expect(host.run(runId)).toMatchObject({ status: 'queued', queueReason: 'worker holder holds the sandbox' })
  expect(idle.connection.hasReceived('dispatch')).toBe(false)
})

test('a worker that came back as an older one is not asked to publish', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await worker.connection.drop()
  const older = host.connect('holder')
  await older.send(registerWithCredential(worker))
  await host.advanceWithHeartbeats(60, [older])
  expect(older.hasReceived('dispatch')).toBe(false)
  expect(host.run(runId).queueReason).toMatch(/^worker holder cannot publish again/)
})

test('a new credential, as any change of the configuration, lets work be published at once', async () => {
  const { host, connection } = await finishUnpublished()
  await host.succeeded(host.hostApi.changeSettings({ agent: { orchestratorEffort: 'high' } }))
  await host.settle()
  expect(connection.lastReceived('dispatch').job.kind).toBe('publish')
})

test('a token that is dead until the morning costs its runs no attempt', async () => {
  const config = { codehost: { token: 'dead' }, agent: { commands: { agentA: 'a' } } }
  const host = await startHost(configWith(config))
  const worker = await enroll(host, 'holder', 3, publishes)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  const { connection } = worker
  const dispatched = () => connection.received.flatMap((frame) => (frame.type === 'dispatch' ? [frame] : []))
  const error = 'credential of github is refused: connect github again'
  for (const work of dispatched().map((frame) => new Work(frame)))
    await connection.send(work.accept(), work.complete(unpublished(host, { error })))
  const retainedUntil = host.runOf('ENG-1').sandbox.retainedUntil ?? ''
  const still = { error, sandbox: { id: 'box-1', retainedUntil, unpublished: true } }
  const morning = host.clock.now() + 4 * 3_600_000
  while (host.clock.now() < morning) {
    const before = dispatched().length
    await host.advanceWithHeartbeats(9, [connection])
    for (const work of dispatched()
      .slice(before)
      .map((frame) => new Work(frame)))
      await connection.send(work.accept(), work.complete(unpublished(host, { ...still, costs: [] })))
  }
  const before = dispatched().length
  host.store.config.edit(configWith({ ...config, codehost: { token: 'alive' } }))
  await host.advance(1)
  const last = dispatched().slice(before)
  expect(last.map(({ job }) => [job.kind, job.credentials])).toEqual(
    Array.from({ length: 3 }, () => ['publish', { codehost: 'alive' }]),
  )
  for (const work of last.map((frame) => new Work(frame)))
    await connection.send(work.accept(), work.complete({ prUrl: PR, result: { artifacts: [] } }))
  for (const run of host.allRuns())
    expect(run).toMatchObject({ status: 'completed', costs: [{ label: 'run' }], costTotals: { costUsd: 2 } })
})

const keys = [{ kind: 'a GitHub \u001b[31mtoken', file: 'src/a.env', line: 2 }]
const holdsKeys = { error: 'a key', keys }

test('work that holds keys waits for a person, is in attention, and is published when a person says so', async () => {
  const { host, worker, connection, runId } = await finishUnpublished(holdsKeys, {}, { holdsKeys: true })
  const reason = expect.stringMatching(/person decides: src\/a.env line 2 .* a GitHub token$/)
  expect(host.run(runId)).toMatchObject({ status: 'queued', queueReason: reason })
  const dispatched = connection.countReceived('dispatch')
  // Neither time nor another configuration is a person's word.
  await host.advanceWithHeartbeats(2 * 3_600, [connection])
  await host.succeeded(host.hostApi.changeSettings({ agent: { orchestratorEffort: 'high' } }))
  await host.settle()
  await host.restart()
  const again = host.connect('holder')
  await again.send({
    ...registerWithCredential(worker),
    capabilities: { ...capabilities, ...publishes, holdsKeys: true },
  })
  await host.advanceWithHeartbeats(600, [again])
  expect(connection.countReceived('dispatch') + again.countReceived('dispatch')).toBe(dispatched)
  expect(host.run(runId).queueReason).toEqual(reason)
  expect(host.hostApi.attention().items).toEqual([
    {
      id: `secret:${runId}`,
      kind: 'secret',
      message: expect.stringMatching(/^done and not published: src\/a.env line 2 .* a GitHub token$/),
      cure: 'switchyard runs publish ENG-1 --anyway',
      runId,
      ticketId: host.run(runId).ticket.id,
      since: expect.any(String),
    },
  ])
  const explained = host.hostApi.explainRun(runId)
  if (!explained.ok) throw new Error('the run is unknown')
  expect(explained.value.gates.find(({ id }) => id === 'repository')).toMatchObject({
    status: 'wait',
    cure: 'switchyard runs publish ENG-1 --anyway',
  })

  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  expect(host.hostApi.attention().items).toEqual([])
  const first = new Work(again.lastReceived('dispatch'))
  expect(first.job).toMatchObject({ kind: 'publish', publishAnyway: true })
  // The word holds for as long as the code host refuses the work.
  await again.send(first.accept(), first.complete({ ...unpublished(host), costs: [] }))
  expect(host.run(runId).foundKeys).toBeUndefined()
  await host.advanceWithHeartbeats(60, [again])
  const second = new Work(again.lastReceived('dispatch'))
  expect(second.job).toMatchObject({ kind: 'publish', publishAnyway: true })
  await again.send(second.accept(), second.complete({ status: 'completed', prUrl: PR }))
  expect(host.run(runId)).toMatchObject({ status: 'completed', costTotals: { costUsd: 2 } })
})

test('a word is for the keys that were shown, and not for those that are found later', async () => {
  const shown = { ...holdsKeys, keysDigest: 'one key' }
  const { host, worker, runId } = await finishUnpublished(shown, {}, { holdsKeys: true })
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  const word = { kind: 'publish', publishAnyway: true, shownKeys: 'one key' }
  expect(workOf(worker).job).toMatchObject(word)
  // A refusal by the code host changes nothing about that, and meanwhile somebody adds a key.
  await failAgain(worker, unpublished(host))
  await host.restart()
  const again = host.connect('holder')
  await again.send({
    ...registerWithCredential(worker),
    capabilities: { ...capabilities, ...publishes, holdsKeys: true },
  })
  await host.advanceWithHeartbeats(60, [again])
  const retried = new Work(again.lastReceived('dispatch'))
  expect(retried.job).toMatchObject(word)
  const others = { error: 'keys', keys: [...keys, ...keys], keysDigest: 'two keys' }
  await again.send(retried.accept(), retried.complete({ ...unpublished(host, others), costs: [] }))
  expect(host.run(runId).foundKeys).toHaveLength(2)
  expect(host.hostApi.attention().items.map(({ kind }) => kind)).toEqual(['secret'])
  await host.succeeded(host.hostApi.retryRun(runId))
  const searched = new Work(again.lastReceived('dispatch'))
  expect(searched.job.publishAnyway).toBeUndefined()
  await again.send(searched.accept(), searched.complete({ ...unpublished(host, others), costs: [] }))
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  expect(new Work(again.lastReceived('dispatch')).job).toMatchObject({ ...word, shownKeys: 'two keys' })
})

test('a retry has work with keys searched again, and words for the agent take back that it is published anyway', async () => {
  const { host, worker, runId } = await finishUnpublished(holdsKeys, {}, { holdsKeys: true })
  await host.succeeded(host.hostApi.retryRun(runId))
  expect(workOf(worker).job.publishAnyway).toBeUndefined()
  await failAgain(worker, unpublished(host, holdsKeys))
  expect(host.run(runId).foundKeys).toHaveLength(1)
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  await failAgain(worker, unpublished(host))
  await host.succeeded(host.hostApi.retryRun(runId, { instructions: 'Without the key.' }))
  expect(workOf(worker).job).toMatchObject({ kind: 'run' })
  expect(workOf(worker).job.publishAnyway).toBeUndefined()
})

test('work with keys of a run that a person cancelled is published when the person says so', async () => {
  const shown = { ...holdsKeys, keysDigest: 'a key' }
  const { host, worker, runId } = await finishUnpublished(shown, {}, { holdsKeys: true })
  await host.succeeded(host.hostApi.cancelRun(runId))
  expect(host.hostApi.attention().items).toEqual([])
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  expect(workOf(worker).job).toMatchObject({ kind: 'publish', publishAnyway: true, shownKeys: 'a key' })
})

test('a word about keys that nobody has seen is none', async () => {
  const { host, worker, runId } = await finishUnpublished(undefined, {}, { holdsKeys: true })
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  expect(workOf(worker).job).toMatchObject({ kind: 'publish' })
  expect(workOf(worker).job.publishAnyway).toBeUndefined()
  await failAgain(worker, unpublished(host, holdsKeys))
  expect(host.run(runId).foundKeys).toHaveLength(1)
})

test('an older worker gets no word that it does not know', async () => {
  const { host, worker, runId } = await finishUnpublished(holdsKeys)
  await host.succeeded(host.hostApi.publishRun(runId, { anyway: true }))
  expect(workOf(worker).job.kind).toBe('publish')
  expect(workOf(worker).job.publishAnyway).toBeUndefined()
})

test('a run without finished work is not published, and no agent is asked', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  await host.advanceWithHeartbeats(60, [connection])
  const work = workOf(worker)
  await connection.send(work.accept())
  expect(await host.hostApi.publishRun(runId)).toMatchObject({ refusal: { kind: 'conflict' } })
  await connection.send(work.complete({ status: 'completed', prUrl: PR }))
  expect(await host.hostApi.publishRun(runId, { anyway: true })).toMatchObject({
    refusal: { kind: 'conflict', message: expect.stringContaining('no finished work') },
  })
  expect(await host.hostApi.publishRun('run-none')).toMatchObject({ refusal: { kind: 'unknown' } })
})

test('a wait outlives restarts of the host', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await host.crash()
  const connection = host.connect('holder')
  await connection.send({
    ...registerWithCredential(worker),
    capabilities: { ...capabilities, ...publishes },
  })
  expect(host.run(runId).queueReason).toMatch(/^publishing again at /)
  await host.advanceWithHeartbeats(60, [connection])
  expect(connection.lastReceived('dispatch').job.kind).toBe('publish')
})

test('work whose worker is revoked fails its run, and the bundle stays', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  expect(host.run(runId)).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(
      /^worker holder was revoked before .*; its commits are kept as the artifact /,
    ),
    result: { artifacts: ['log.txt', UNPUBLISHED_BUNDLE] },
    costTotals: { costUsd: 2 },
  })
})

test('work whose worker is revoked while it publishes fails its run when its lease ends', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  await host.advanceWithHeartbeats(60, [connection])
  await connection.send(workOf(worker).accept())
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.advance(200)
  expect(host.run(runId)).toMatchObject({
    status: 'failed',
    error: expect.stringContaining('was revoked before'),
  })
})

test('work that was not published while its sandbox was kept fails its run', async () => {
  const { host, runId, connection } = await finishUnpublished()
  await connection.drop()
  await host.advance(24 * 3_600 + 1)
  expect(host.run(runId)).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/^its work could not be published while its sandbox was kept: /),
  })
})

test('a retry of a waiting run publishes at once, and one with instructions asks the agent in its session', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.retryRun(runId))
  expect(workOf(worker).job.kind).toBe('publish')
  await failAgain(worker, unpublished(host))
  await host.succeeded(host.hostApi.retryRun(runId, { instructions: 'Keep the rule.' }))
  expect(workOf(worker).job).toMatchObject({
    kind: 'run',
    continueSession: 's-1',
    run: { instructions: 'Keep the rule.', sandbox: { unpublished: true } },
  })
  const work = workOf(worker)
  await connection.send(work.accept(), work.complete({ costs: [cost(3)] }))
  expect(host.run(runId)).toMatchObject({
    costs: [{ label: 'run' }, { label: 'attempt 2' }],
    costTotals: { costUsd: 5 },
  })
})

test('a retry with instructions does not wait for the holder, and what that holds is not discarded', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  const idle = await enroll(host, 'idle', 2, publishes)
  await host.succeeded(host.hostApi.retryRun(runId, { instructions: 'Keep the rule.' }))
  expect(workOf(idle).job.continueSession).toBeUndefined()
  await idle.connection.send(workOf(idle).accept())
  expect(worker.connection.hasReceived('discard')).toBe(false)
})

test('a run cancelled while its work waits keeps it, and a retry publishes it', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.cancelRun(runId))
  expect(host.run(runId)).toMatchObject({
    status: 'cancelled',
    error: expect.stringMatching(
      /^it was cancelled; its work is kept in the sandbox on worker holder until /,
    ),
  })
  await host.succeeded(host.hostApi.retryRun(runId))
  expect(workOf(worker).job.kind).toBe('publish')
  // Nobody takes it for a new attempt.
  const reason = expect.stringMatching(/^publishing again at /)
  expect((await host.readEvents(runId)).at(-1)).toMatchObject({ to: 'queued', reason })
})

test('an error promises no retry of work that was discarded', async () => {
  const { host, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.cancelRun(runId))
  const { error } = await host.succeeded(host.hostApi.discardRun(runId))
  expect(error).toMatch(/^it was cancelled; its sandbox was discarded, .* unpublished\.bundle$/)
  expect(host.run(runId).error).toBe(error)
})

test('an error promises no retry either when the worker that kept the work is revoked', async () => {
  const { host, worker, runId } = await finishUnpublished()
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await host.settle()
  const { error, sandbox } = host.run(runId)
  expect(error).toMatch(/^it was cancelled; worker holder was revoked, .* unpublished\.bundle$/)
  expect(sandbox.unpublished).toBeUndefined()
})

test.each<[string, Partial<RunOutcome>, object, string]>([
  ['without instructions', {}, {}, 'publish'],
  ['with instructions', {}, { instructions: 'Again.' }, 'run'],
  [
    'when the sandbox is gone',
    { sandbox: { id: 'box-1', retainedUntil: '2026-01-01T00:00:00.000Z', unpublished: true } },
    {},
    'run',
  ],
])('a retry of a run that failed with unpublished work, %s', async (_, more, options, kind) => {
  const { failure: _none, ...lasting } = unpublished(await startHost(), more)
  const host = await startHost()
  const worker = await enroll(host, 'holder', 1, publishes)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = workOf(worker)
  await worker.connection.send(work.accept(), work.complete(lasting))
  expect(host.run(work.runId).status).toBe('failed')
  await host.succeeded(host.hostApi.retryRun(work.runId, options))
  expect(workOf(worker).job.kind).toBe(kind)
})

test('work waits for its worker also when its ticket is blocked meanwhile', async () => {
  const { host, worker, connection } = await finishUnpublished()
  host.tracker.put(ticket('ENG-2', { state: 'Backlog' }), ticket('ENG-1', { blockedBy: ['ENG-2'] }))
  await host.advanceWithHeartbeats(60, [connection])
  expect(workOf(worker).job.kind).toBe('publish')
})

test('a worker that is gone with finished work needs a person at once, after a restart too, until it is back', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  const items = () => host.hostApi.attention().items
  await connection.drop()
  await host.advance(2)
  const [item] = items()
  expect(item).toMatchObject({
    kind: 'worker-away',
    id: `worker-away:${worker.workerId}`,
    cure: expect.stringContaining(UNPUBLISHED_BUNDLE),
  })
  for (const restart of [() => host.crash(), () => host.restart()]) {
    await restart()
    expect(items()).toEqual([item])
  }
  // The run waits for its worker from now on, and not for the next try.
  await host.advance(120)
  expect(items()).toMatchObject([{ id: item?.id }])
  const again = host.connect('holder')
  await again.send({
    ...registerWithCredential(worker),
    capabilities: { ...capabilities, maxConcurrency: 1, ...publishes },
  })
  expect([host.run(runId).sandbox.unpublished, items()]).toEqual([true, []])
  await host.restart()
  expect(items()).toEqual([])
})

test('runs that can’t be published are one item of attention after several tries, until they are published', async () => {
  const { host, worker, connection, runId } = await finishUnpublished()
  const more = unpublished(host)
  const items = () => host.hostApi.attention().items
  await host.advanceWithHeartbeats(60, [connection])
  await failAgain(worker, more)
  expect(items()).toEqual([])
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  const second = workOf(worker)
  const error = REFUSED.replace('eng-1', 'eng-2')
  await connection.send(second.accept(), second.complete({ ...more, error, costs: [] }))
  const [item] = items()
  const cause = REFUSED.replace('switchyard/eng-1 ', '')
  expect(items()).toHaveLength(1)
  expect(item).toMatchObject({
    kind: 'codehost',
    message: expect.stringContaining(cause),
  })
  expect(item?.runs).toEqual([runId, second.runId])
  await host.advance(5)
  await host.restart()
  expect(items()).toEqual([item])
  const again = host.connect('holder')
  await again.send({
    ...registerWithCredential(worker),
    capabilities: { ...capabilities, maxConcurrency: 1, ...publishes },
  })
  await host.succeeded(host.hostApi.retryRun(runId))
  const work = new Work(again.lastReceived('dispatch'))
  await again.send(work.accept())
  // A try is no end of the trouble.
  expect(items()).toEqual([item])
  await again.send(work.complete({ status: 'completed', prUrl: PR }))
  expect(host.run(runId).status).toBe('completed')
  expect(items()).toEqual([])
})

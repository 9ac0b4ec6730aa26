/** Setbacks: a worker gives a run back that lacks something, and the run waits until something has changed. */
import { expect, test } from '@jest/globals'
import { ABLE_WORKERS, FLEET_REASONS } from '../../core/fleet/placement.ts'
import { REPOSITORY_RECHECK_MS_MIN, SETBACK_RECHECK_MS } from '../../core/run/setback.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import { WORKER_BACKOFF_MS } from '../../protocol/limits.ts'
import {
  capabilities,
  configWith,
  cost,
  type EnrolledScriptedWorker,
  enroll,
  type HostConversation,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const UNREADABLE = "owner/name can't be read: there is no such repository; correct remote"
const credentials = { agent: { agentAApiKey: 'key-of-agent-a' }, codehost: { token: 'token-of-github' } }

const dispatchesOf = ({ connection }: EnrolledScriptedWorker) =>
  connection.received.flatMap((frame) => (frame.type === 'dispatch' ? [frame] : []))

/** The worker accepts its last dispatch and gives the run back. */
async function giveBack(
  { connection }: EnrolledScriptedWorker,
  error = UNREADABLE,
  failure: 'configuration' | 'credentials' | 'network' | 'agent' = 'configuration',
  costs: readonly CostEntry[] = [],
): Promise<void> {
  const work = new Work(connection.lastReceived('dispatch'))
  const outcome = { failure, error, costs: [...costs] }
  const begun = failure === 'network' ? [] : [work.running()]
  await connection.send(work.accept(), ...begun, work.complete({ status: 'failed', ...outcome }))
}

async function startWithSetback(): Promise<{ host: HostConversation; worker: EnrolledScriptedWorker }> {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker)
  return { host, worker }
}

test('a run that its worker gives back waits with the reason, and so does every run that needs the same', async () => {
  const { host, worker } = await startWithSetback()
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  for (const identifier of ['ENG-1', 'ENG-2'])
    expect(host.runOf(identifier)).toMatchObject({ status: 'queued', queueReason: UNREADABLE })
  await host.advanceWithHeartbeats(REPOSITORY_RECHECK_MS_MIN / 1_000 - 5, [worker.connection])
  expect(dispatchesOf(worker)).toHaveLength(1)
  const placement = host.hostApi.placement(host.runOf('ENG-1').id)
  expect(placement).toMatchObject({ value: { reason: UNREADABLE, workers: [{ reason: UNREADABLE }] } })
})

test('a retry reads an edit and lets the run try at once, also when it waits for both', async () => {
  const { host, worker } = await startWithSetback()
  host.tracker.put({ ...ticket('ENG-1'), edited: { by: 'eve', at: '2026-03-01T10:00:00.000Z' } })
  await host.settle()
  const { id } = host.runOf('ENG-1')
  expect(host.run(id).queueReason).toMatch(/^ENG-1 was edited by eve /)
  await host.succeeded(host.hostApi.retryRun(id))
  await host.settle()
  expect(dispatchesOf(worker)).toHaveLength(2)
})

test('a run given back for itself alone waits for the workers that have not tried it', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'first', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const spare = await enroll(host, 'spare', 1)
  await host.succeeded(host.hostApi.drainWorker(spare.workerId))
  await giveBack(worker, 'the branch has no valid name: rename it')
  const reason = `${ABLE_WORKERS} are draining`
  const run = host.runOf('ENG-1')
  expect(run.queueReason).toBe(reason)
  const gate = { id: 'workers', status: 'wait', message: reason }
  expect(host.hostApi.explainRun(run.id)).toMatchObject({ value: { gates: expect.arrayContaining([gate]) } })
  await host.succeeded(host.hostApi.enableWorker(spare.workerId))
  await host.settle()
  expect(dispatchesOf(spare)).toHaveLength(1)
})

test('a run that fails for another reason fails', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker, 'the agent gave up', 'agent')
  expect(host.runOf('ENG-1')).toMatchObject({ status: 'failed', error: 'the agent gave up' })
})

test('another worker tries the run once', async () => {
  const { host } = await startWithSetback()
  const secondWorker = await enroll(host, 'second', 1)
  await giveBack(secondWorker)
  expect(dispatchesOf(secondWorker)).toHaveLength(1)
  expect(host.runOf('ENG-1').queueReason).toBe(UNREADABLE)
})

test('a changed configuration lets the run go to the worker again', async () => {
  const { host, worker } = await startWithSetback()
  await host.succeeded(
    host.hostApi.changeSettings({ repos: { main: { remote: 'owner/other' } } }, ['repos.main.remote']),
  )
  await host.settle()
  expect(dispatchesOf(worker)).toHaveLength(2)
})

test('a retry by a person tries the run once more', async () => {
  const { host, worker } = await startWithSetback()
  await host.succeeded(host.hostApi.retryRun(host.runOf('ENG-1').id))
  await host.settle()
  expect(dispatchesOf(worker)).toHaveLength(2)
  expect(await host.hostApi.retryRun(host.runOf('ENG-1').id)).toMatchObject({ refusal: { kind: 'conflict' } })
})

test('a retry with another agent waits for what that agent needs', async () => {
  const host = await startHost(configWith(credentials))
  const agents = { agentA: { found: true }, agentB: { found: true } }
  const worker = await enroll(host, 'worker', 1, { agents })
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker)
  await host.succeeded(host.hostApi.retryRun(host.runOf('ENG-1').id, { provider: 'agentB' }))
  await host.settle()
  expect(host.runOf('ENG-1').queueReason).toMatch(/^credential of agentB is missing: /)
  expect(dispatchesOf(worker)).toHaveLength(1)
})

test('a retry of a run that waits for anything else is refused with the reason', async () => {
  const { host, worker, reason } = await reasonWith({ codehost: credentials.codehost })
  const waiting = reason()
  expect(await host.hostApi.retryRun(host.runOf('ENG-1').id)).toMatchObject({
    refusal: { kind: 'conflict', message: expect.stringContaining(`is queued already: ${waiting}`) },
  })
  expect(dispatchesOf(worker)).toEqual([])
})

test('a retry of a run that another worker is offered leaves the setback of the first alone', async () => {
  const { host, worker } = await startWithSetback()
  const second = await enroll(host, 'second', 1)
  expect(second.connection.hasReceived('dispatch')).toBe(true)
  expect(await host.hostApi.retryRun(host.runOf('ENG-1').id)).toMatchObject({ refusal: { kind: 'conflict' } })
  await second.connection.send(new Work(second.connection.lastReceived('dispatch')).reject('busy: full'))
  expect(dispatchesOf(worker)).toHaveLength(1)
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('changed capabilities of the worker let the run go to the worker again', async () => {
  const { host, worker } = await startWithSetback()
  const agents = { agentA: { found: true } }
  const seen = { ...capabilities, maxConcurrency: 1, agents }
  await worker.connection.send({
    type: 'heartbeat',
    leases: [],
    attachSessions: 0,
    sentAt: 1,
    capabilities: seen,
  })
  await host.settle()
  expect(dispatchesOf(worker)).toHaveLength(2)
})

test('a worker that reconnects gets the run again, but not more often than every 30 seconds', async () => {
  const { host, worker } = await startWithSetback()
  const again = await reconnect(host, worker)
  await host.settle()
  expect(again.hasReceived('dispatch')).toBe(false)
  await host.advanceWithHeartbeats(WORKER_BACKOFF_MS / 1_000 + 1, [again])
  expect(again.hasReceived('dispatch')).toBe(true)
})

test('a worker that says that it ends can use no more than before, so it gets the run no sooner', async () => {
  const { host, worker } = await startWithSetback()
  const ending = { ...capabilities, maxConcurrency: 1, ending: true }
  await worker.connection.send({
    type: 'heartbeat',
    leases: [],
    attachSessions: 0,
    sentAt: 1,
    capabilities: ending,
  })
  const again = await reconnect(host, worker)
  await host.settle()
  expect(again.hasReceived('dispatch')).toBe(false)
  await host.advanceWithHeartbeats(WORKER_BACKOFF_MS / 1_000 + 1, [again])
  expect(again.hasReceived('dispatch')).toBe(true)
})

test('after a while the host tries again by itself', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker, 'credential of github is refused: connect it again', 'credentials')
  await host.advanceWithHeartbeats(SETBACK_RECHECK_MS / 1_000 - 5, [worker.connection])
  expect(dispatchesOf(worker)).toHaveLength(1)
  await host.advanceWithHeartbeats(6, [worker.connection])
  expect(dispatchesOf(worker)).toHaveLength(2)
})

const UNREACHABLE = "owner/name can't be read: the code host could not be reached"
/** The waits in minutes until the runs of an unreachable repository are tried again; later ones are like the last. */
const WAITS = [1, 2, 4, 8, 15, 15]

test('a repository that can’t be reached is tried after 1, 2, 4, 8 minutes and then every 15, and no run fails', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  for (const [tries, minutes] of WAITS.entries()) {
    await giveBack(worker, UNREACHABLE, 'network')
    expect(host.runOf('ENG-1')).toMatchObject({ status: 'queued', queueReason: UNREACHABLE })
    await host.advanceWithHeartbeats(minutes * 60 - 2, [worker.connection])
    expect(dispatchesOf(worker)).toHaveLength(tries + 1)
    await host.advanceWithHeartbeats(3, [worker.connection])
    expect(dispatchesOf(worker)).toHaveLength(tries + 2)
  }
  const work = new Work(worker.connection.lastReceived('dispatch'))
  await worker.connection.send(work.accept(), work.running(), work.complete())
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  await giveBack(worker, UNREACHABLE, 'network')
  await host.advanceWithHeartbeats(61, [worker.connection])
  expect(dispatchesOf(worker)).toHaveLength(WAITS.length + 3)
})

test('runs of other repositories take the slot of a run whose repository can’t be reached', async () => {
  const repos = { main: { remote: 'owner/name' }, second: { remote: 'owner/second' } }
  const host = await startHost(configWith({ ...credentials, repos }))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1', { repo: 'main' }), ticket('ENG-2', { repo: 'second' }))
  await host.settle()
  await giveBack(worker, UNREACHABLE, 'network')
  const work = new Work(worker.connection.lastReceived('dispatch'))
  expect(work.runId).toBe(host.runOf('ENG-2').id)
  await worker.connection.send(work.accept(), work.complete())
  expect([host.runOf('ENG-1').queueReason, host.runOf('ENG-2').status]).toEqual([UNREACHABLE, 'completed'])
})

test('an outage after the agent’s work fails the run, because a new attempt would pay the agent again', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker, UNREACHABLE, 'network', [cost(1)])
  expect(host.runOf('ENG-1')).toMatchObject({ status: 'failed', error: UNREACHABLE })
})

test('time and a reconnect repeat no run whose agent had worked, and a changed configuration does', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const reason = 'credential of github is refused: it may not open pull requests'
  await giveBack(worker, reason, 'credentials', [cost(1)])
  await host.advanceWithHeartbeats(SETBACK_RECHECK_MS / 1_000 + 1, [worker.connection])
  expect(dispatchesOf(worker)).toHaveLength(1)
  const again = await reconnect(host, worker)
  await host.advanceWithHeartbeats(SETBACK_RECHECK_MS / 1_000 + 1, [again])
  expect(again.hasReceived('dispatch')).toBe(false)
  expect(host.runOf('ENG-1')).toMatchObject({ status: 'queued', queueReason: reason })
  await host.succeeded(
    host.hostApi.changeSettings({ repos: { main: { remote: 'owner/other' } } }, ['repos.main.remote']),
  )
  await host.settle()
  expect(again.hasReceived('dispatch')).toBe(true)
})

test('after a restart the host tries once more', async () => {
  const { host, worker } = await startWithSetback()
  await host.restart()
  const again = await reconnect(host, worker)
  await host.settle()
  expect(again.hasReceived('dispatch')).toBe(true)
})

test('a run whose reason names nothing that others need holds back no other run', async () => {
  const host = await startHost(configWith(credentials))
  const worker = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await giveBack(worker, 'its branch is protected')
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  expect(host.runOf('ENG-1').queueReason).toBe('its branch is protected')
  expect(worker.connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-2')
})

test('a run that one free worker gave back keeps no run with the same needs from that worker', async () => {
  const host = await startHost(configWith(credentials))
  const free = await enroll(host, 'free', 1)
  host.tracker.put(ticket('ENG-1', { priority: 1 }))
  await host.settle()
  const busy = await enroll(host, 'busy', 1)
  host.tracker.put(ticket('ENG-1', { priority: 1 }), ticket('ENG-2'))
  await host.settle()
  await busy.connection.send(new Work(busy.connection.lastReceived('dispatch')).accept())
  await giveBack(free, 'its branch is protected')
  host.tracker.put(ticket('ENG-1', { priority: 1 }), ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  expect(dispatchesOf(free).map(({ job }) => job.run.ticket.identifier)).toEqual(['ENG-1', 'ENG-3'])
})

const MISSING = { agents: { agentA: { found: false, problem: 'install it' } } }

/** Enrolls a worker that reports no agent; returns the worker and the reason for which the run waits. */
async function reasonWith(settings: object) {
  const host = await startHost(configWith(settings))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const worker = await enroll(host, 'worker', 1, MISSING)
  return { host, worker, reason: () => host.runOf('ENG-1').queueReason }
}

test('a run waits for the credentials that the configuration lacks', async () => {
  const { codehost, agent } = credentials
  expect((await reasonWith({ agent })).reason()).toMatch(/^credential of github is missing: /)
  expect((await reasonWith({ codehost })).reason()).toMatch(
    /^credential of agentA is missing: .*agent\.agentAApiKey/,
  )
})

test('a run waits for its agent until the worker reports it', async () => {
  const { host, worker, reason } = await reasonWith(credentials)
  expect(reason()).toBe('no worker has agentA: install it')
  expect(dispatchesOf(worker)).toEqual([])
  const found = { ...capabilities, maxConcurrency: 1, agents: { agentA: { found: true } } }
  await worker.connection.send({
    type: 'heartbeat',
    leases: [],
    attachSessions: 0,
    sentAt: 1,
    capabilities: found,
  })
  await host.settle()
  expect(dispatchesOf(worker)).toHaveLength(1)
})

test('a run with a memory limit waits for a worker that has one, and goes to no other', async () => {
  const agents = { agentA: { found: true } }
  const host = await startHost(configWith({ ...credentials, sandbox: { memoryMib: 512 } }))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const silent = await enroll(host, 'silent', 4, { agents })
  const plain = await enroll(host, 'plain', 4, { agents, limits: 'rlimit' })
  expect(host.runOf('ENG-1').queueReason).toMatch(/^worker (silent|plain) has no memory limit$/)
  const able = await enroll(host, 'able', 1, { agents, limits: 'cgroup' })
  expect([silent, plain, able].map((worker) => dispatchesOf(worker).length)).toEqual([0, 0, 1])
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(host.runOf('ENG-2').queueReason).toBe(FLEET_REASONS.full)
  await host.succeeded(host.hostApi.changeSettings({ sandbox: { memoryMib: null } }))
  await host.settle()
  expect([silent, plain].flatMap(dispatchesOf)).toHaveLength(1)
})

test('dashboards receive the new reason of a run that a changed configuration lets wait for something else', async () => {
  const host = await startHost(configWith(credentials))
  await enroll(host, 'worker', 1, { agents: { agentA: { found: true } } })
  host.tracker.put(ticket('ENG-1', { priority: 1 }), ticket('ENG-2'))
  await host.settle()
  expect(host.runOf('ENG-2').queueReason).toBe(FLEET_REASONS.full)
  const pushes = host.recordPushes()
  await host.succeeded(host.hostApi.changeSettings({ agent: { provider: 'agentC' } }))
  await host.clock.advance(500)
  expect(host.runOf('ENG-2').queueReason).toMatch(/^credential of agentC is missing: /)
  const pushed = pushes.flatMap((push) =>
    push.type === 'run-updated' && push.run.ticket.identifier === 'ENG-2' ? [push.run.queueReason] : [],
  )
  expect(pushed.at(-1)).toMatch(/^credential of agentC is missing: /)
})

test('a command of the operator needs neither the agent nor its credential', async () => {
  const { codehost } = credentials
  const { worker } = await reasonWith({ codehost, agent: { commands: { agentA: 'my-agent' } } })
  expect(dispatchesOf(worker)).toHaveLength(1)
})

test('a worker of an earlier version, which reports no agents, gets every run', async () => {
  const host = await startHost(configWith({}))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(dispatchesOf(await enroll(host, 'old', 1))).toHaveLength(1)
})

/**
 * Runs whose workers end during them: before the agent began nothing is lost and nothing counts; afterwards the run
 * prefers the worker that holds its sandbox, waits for it only when the agent was done, and its agent goes on there where
 * it can.
 */
import { describe, expect, test } from '@jest/globals'
import { UNBEGUN_DISPATCHES_MAX } from '../../actors/runs/run.machine.ts'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import { daemonEndedError, interruptionError } from '../../core/run/interruption.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
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

const CONTINUES = { continuesSessions: true }
const SESSION = 's-1'

const unbegun: Partial<RunOutcome> = {
  status: 'failed',
  failure: 'configuration',
  begun: false,
  error: 'its machine restarted',
}

const interrupted = (costs: RunOutcome['costs'] = []): Partial<RunOutcome> => ({
  status: 'failed',
  error: daemonEndedError('running'),
  costs,
  agentSessionId: SESSION,
  sandbox: { id: 'sb-1', retainedUntil: '2026-01-02T12:00:00.000Z' },
})

interface Scene {
  readonly host: HostConversation
  readonly holder: EnrolledScriptedWorker
  readonly freer: EnrolledScriptedWorker
}

/** The freer worker has more free slots, so a run without a preference goes there. */
async function startWithTwoWorkers(config?: string, holderCapabilities: object = CONTINUES): Promise<Scene> {
  const host = await startHost(config)
  const holder = await enroll(host, 'holder', 2, holderCapabilities)
  return { host, holder, freer: await enroll(host, 'freer', 4, CONTINUES) }
}

async function acceptOn({ connection }: EnrolledScriptedWorker): Promise<Work> {
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept())
  return work
}

/** The run is executed on the holder, because the freer worker drains for a moment; its agent works. */
async function workOnHolder(scene: Scene): Promise<Work> {
  const { host, holder, freer } = scene
  await host.succeeded(host.hostApi.drainWorker(freer.workerId))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = await acceptOn(holder)
  const reported = { agentSessionId: SESSION, sandbox: { id: 'sb-1' } }
  await holder.connection.send(work.running(), work.patch(reported))
  await host.succeeded(host.hostApi.enableWorker(freer.workerId))
  return work
}

const dispatchesTo = ({ connection }: EnrolledScriptedWorker): number => connection.countReceived('dispatch')

async function expectAnew({ host, holder, freer }: Scene): Promise<void> {
  expect([dispatchesTo(holder), dispatchesTo(freer)]).toEqual([1, 1])
  expect(holder.connection.hasReceived('discard')).toBe(false)
  expect((await acceptOn(freer)).job.continueSession).toBeUndefined()
  expect(host.runOf('ENG-1').agentSessionId).toBeUndefined()
}

/** The sandbox in which the agent was interrupted is of no use any more. */
const expectDiscarded = ({ host, holder }: Scene, connection = holder.connection): void =>
  expect(connection.lastReceived('discard').runId).toBe(host.runOf('ENG-1').id)

describe('a run that is given back before its agent began', () => {
  test('is queued again at once, as often as that happens, and counts as no interruption', async () => {
    const { host, freer } = await startWithTwoWorkers()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    for (let times = 1; times <= 5; times++) {
      const work = await acceptOn(freer)
      await freer.connection.send(work.complete(unbegun))
      await host.settle()
      expect(dispatchesTo(freer)).toBe(times + 1)
    }
    const work = await acceptOn(freer)
    await freer.connection.send(work.running(), work.complete({ costs: [cost(1)] }))
    expect(host.runOf('ENG-1')).toMatchObject({ status: 'completed', costTotals: { costUsd: 1 } })
  })

  test('fails when that never ends', async () => {
    const { host, freer } = await startWithTwoWorkers()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    for (let times = 1; times <= UNBEGUN_DISPATCHES_MAX; times++) {
      expect(host.runOf('ENG-1').status).not.toBe('failed')
      const work = await acceptOn(freer)
      await freer.connection.send(work.complete(unbegun))
      await host.settle()
    }
    const { status, error } = host.runOf('ENG-1')
    expect(status).toBe('failed')
    expect(error).toMatch(/before its agent began, as dispatch 20 of this run; .*its machine restarted/)
    expect(dispatchesTo(freer)).toBe(UNBEGUN_DISPATCHES_MAX)
  })

  test('says why while it waits', async () => {
    const { host, holder, freer } = await startWithTwoWorkers()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    const work = await acceptOn(freer)
    for (const { workerId } of [holder, freer]) await host.succeeded(host.hostApi.drainWorker(workerId))
    await freer.connection.send(work.complete(unbegun))
    await host.settle()
    expect(host.runOf('ENG-1')).toMatchObject({
      status: 'queued',
      queueReason: `${interruptionError('its machine restarted')}; ${FLEET_REASONS.draining}`,
    })
  })
})

describe('a run that is interrupted while its agent works', () => {
  test('goes on in its session on the worker that holds its sandbox, and each execution costs once', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder, freer } = scene
    const first = await workOnHolder(scene)
    expect(first.job.continueSession).toBeUndefined()
    await holder.connection.send(first.complete(interrupted([cost(1)])))
    await host.settle()
    expect([dispatchesTo(holder), dispatchesTo(freer)]).toEqual([2, 0])
    const again = await acceptOn(holder)
    expect(again.job).toMatchObject({ kind: 'run', continueSession: SESSION })
    await holder.connection.send(again.running(), again.complete({ costs: [cost(2)] }))
    const run = host.runOf('ENG-1')
    expect([run.status, run.costTotals?.costUsd]).toEqual(['completed', 3])
    expect(run.costs.map(({ label }) => label)).toEqual(['run', 'attempt 2'])
  })

  test('does so after its lease was lost, too', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder, freer } = scene
    await workOnHolder(scene)
    await holder.connection.sendHeartbeat()
    await host.settle()
    expect([dispatchesTo(holder), dispatchesTo(freer)]).toEqual([2, 0])
    expect((await acceptOn(holder)).job.continueSession).toBe(SESSION)
  })

  test('keeps its preference when it is given back before its agent began again', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder } = scene
    const first = await workOnHolder(scene)
    await holder.connection.send(first.complete(interrupted()))
    await host.settle()
    const again = await acceptOn(holder)
    await holder.connection.send(again.complete(unbegun))
    await host.settle()
    expect((await acceptOn(holder)).job.continueSession).toBe(SESSION)
  })

  test('does not wait for that worker: while it is away another one begins anew', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder, freer } = scene
    await workOnHolder(scene)
    await holder.connection.drop()
    await host.advanceWithHeartbeats(170, [freer.connection])
    await expectAnew(scene)
    await host.crash()
    const back = host.connect('holder')
    await back.send(registerWithCredential(holder))
    expectDiscarded(scene, back)
  })

  test('does not wait for that worker: while it drains another one begins anew', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder } = scene
    const work = await workOnHolder(scene)
    await host.succeeded(host.hostApi.drainWorker(holder.workerId))
    await holder.connection.send(work.complete(interrupted()))
    await host.settle()
    await expectAnew(scene)
    expectDiscarded(scene)
  })

  test('begins anew on an older worker, and with an agent whose sessions cannot be resumed', async () => {
    const scenes = [
      await startWithTwoWorkers(undefined, {}),
      await startWithTwoWorkers(configWith({ agent: { provider: 'agentB' } })),
    ]
    for (const scene of scenes) {
      const { host, holder } = scene
      const first = await workOnHolder(scene)
      await holder.connection.send(first.complete(interrupted()))
      await host.settle()
      expect((await acceptOn(holder)).job.continueSession).toBeUndefined()
    }
  })

  test('fails the third time in a row', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder } = scene
    let work = await workOnHolder(scene)
    for (let times = 1; times < 3; times++) {
      await holder.connection.send(work.complete(interrupted()))
      await host.settle()
      work = await acceptOn(holder)
    }
    await holder.connection.send(work.complete(interrupted()))
    expect(host.runOf('ENG-1')).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(
        /^interrupted 3 times in a row, the last time because the worker daemon ended /,
      ),
    })
  })

  test('a retry by a person begins anew', async () => {
    const scene = await startWithTwoWorkers()
    const { host, holder } = scene
    const work = await workOnHolder(scene)
    await holder.connection.send(work.complete({ ...interrupted(), error: 'the agent gave up' }))
    const { id } = host.runOf('ENG-1')
    await host.succeeded(host.hostApi.retryRun(id))
    await host.settle()
    expect(scene.freer.connection.lastReceived('dispatch').job.continueSession).toBeUndefined()
  })
})

/** The agent is done, and its worker falls silent while it publishes. */
async function loseWorkerOfDoneRun(
  session: { readonly agentSessionId?: string } = { agentSessionId: 's-1' },
) {
  const provider = session.agentSessionId === undefined ? 'agentB' : 'agentA'
  const host = await startHost(configWith({ agent: { provider } }))
  const continues = { continuesSessions: true, publish: true }
  const worker = await enroll(host, 'holder', 1, continues)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = new Work(worker.connection.lastReceived('dispatch'))
  const sandbox = { provider: 'bwrap', id: 'box-1' }
  await worker.connection.send(
    work.accept(),
    work.running(),
    work.patch({ sandbox, ...session, status: 'finalizing' }),
  )
  const { connection: idle } = await enroll(host, 'other', 2, continues)
  await host.advanceWithHeartbeats(170, [idle])
  expect(host.run(work.runId)).toMatchObject({
    status: 'queued',
    queueReason: expect.stringMatching(/^interrupted: .*; worker holder holds the sandbox/),
  })
  expect(host.hostApi.attention().items).toMatchObject([{ kind: 'worker-away' }])
  return { host, worker, work, idle, continues }
}

test.each([
  ['s-1', { agentSessionId: 's-1' }],
  ['no session, because its agent resumes none', {}],
])(
  'a run whose worker is lost while it publishes waits for it: its agent is done, in %s',
  async (_, session) => {
    const { host, worker, work, idle, continues } = await loseWorkerOfDoneRun(session)
    await host.restart()
    await host.advance(60)
    const again = host.connect('holder')
    await again.send({
      ...registerWithCredential(worker),
      capabilities: { ...capabilities, ...continues, maxConcurrency: 1 },
    })
    const { kind, continueSession, run } = again.lastReceived('dispatch').job
    expect([kind, continueSession]).toEqual([
      'run',
      'agentSessionId' in session ? session.agentSessionId : undefined,
    ])
    // By this the worker knows that its sandbox holds the newest work of the run.
    expect(run.sandbox.workerId).toBe(worker.workerId)
    await again.send(new Work(again.lastReceived('dispatch')).accept())
    expect(host.run(work.runId).status).toBe('preparing')
    expect(idle.hasReceived('dispatch')).toBe(false)
  },
)

test.each<[string, (host: HostConversation, worker: EnrolledScriptedWorker) => Promise<unknown>]>([
  ['revoked', (host, { workerId }) => host.succeeded(host.hostApi.revokeWorker(workerId))],
  ['away for as long as a sandbox is kept', (host) => host.advance(24 * 3_600)],
])('such a run begins elsewhere when its worker is %s', async (how, lose) => {
  const { host, worker, work, idle, continues } = await loseWorkerOfDoneRun()
  await lose(host, worker)
  // The other worker has fallen silent during a day without heartbeats.
  const taker = how === 'revoked' ? idle : (await enroll(host, 'late', 2, continues)).connection
  await host.advance(1)
  expect(taker.lastReceived('dispatch').lease.runId).toBe(work.runId)
})

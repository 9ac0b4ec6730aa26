/** A wrong wall clock ends nothing that can't be made again: neither the host's own, nor that of a worker. */
import { describe, expect, test } from '@jest/globals'
import { ENDED_LEASES_KEPT_MS } from '../../actors/leases/ended-leases.ts'
import type { WorkerFrame } from '../../protocol/frames.ts'
import {
  acceptRun,
  capabilities,
  type EnrolledScriptedWorker,
  enroll,
  type HostConversation,
  heartbeat,
  inMemoryOnly,
  type LeasedScriptedWorker,
  reconnect,
  registerWithCredential,
  type ScriptedConnection,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** How often the host looks for what is too old. */
const PRUNE_HOURS = 6

const iso = (ms: number): string => new Date(ms).toISOString()

const complaintsOf = (host: HostConversation): string[] =>
  host.log.lines.filter(({ message }) => message.includes("this machine's clock")).map(({ level }) => level)

const endedLeases = (host: HostConversation): string[] =>
  [...host.store.database.keyValues.all('ended-lease')].map(([id]) => id)

async function completeRun(host: HostConversation): Promise<LeasedScriptedWorker> {
  const given = await acceptRun(host)
  await given.connection.send(given.work.complete())
  return given
}

/** Sends a heartbeat that says the worker's time, and returns what the host says about its own. */
async function sendTime(host: HostConversation, connection: ScriptedConnection, clock: number) {
  await connection.send({ ...heartbeat(host), clock })
  return connection.lastReceived('heartbeat-ack')
}

/** A worker on the machine of its host has the same clock, so its agreement proves nothing. */
const testWithAddresses = inMemoryOnly('all sockets of a test come from one machine')

async function reconnectFromElsewhere(host: HostConversation, worker: EnrolledScriptedWorker) {
  const connection = host.connect(worker.name, { address: '10.0.0.7' })
  await connection.send(registerWithCredential(worker))
  return connection
}

async function passHours(host: HostConversation, hours: number): Promise<void> {
  await host.clock.advance(hours * HOUR_MS)
}

describe('ended leases', () => {
  test('a host that starts with its clock 40 days ahead still fences them, and says so once', async () => {
    const host = await startHost()
    const { worker, work } = await completeRun(host)
    host.clock.jumpWallClock(40 * DAY_MS)
    await host.restart()
    await passHours(host, PRUNE_HOURS + 1)
    const connection = await reconnect(host, worker)
    await connection.send(work.at(1).complete())
    expect(connection.countReceived('run-complete-ack')).toBe(1)
    expect([endedLeases(host).length, complaintsOf(host)]).toEqual([1, ['warn']])
  })

  test('a clock that jumps while the host runs deletes none, and all is as before when it is set right', async () => {
    const host = await startHost()
    await completeRun(host)
    host.clock.jumpWallClock(20 * DAY_MS)
    await passHours(host, PRUNE_HOURS)
    expect([endedLeases(host).length, complaintsOf(host)]).toEqual([1, ['warn']])
    host.clock.jumpWallClock(-20 * DAY_MS)
    await passHours(host, 1)
    expect([endedLeases(host).length, complaintsOf(host)]).toEqual([1, ['warn', 'info']])
    await passHours(host, ENDED_LEASES_KEPT_MS / HOUR_MS + PRUNE_HOURS)
    expect(endedLeases(host)).toEqual([])
  })

  testWithAddresses(
    'after 40 days without power they go once a worker elsewhere agrees with the clock',
    async () => {
      const host = await startHost()
      const { worker } = await completeRun(host)
      host.clock.jumpWallClock(40 * DAY_MS)
      await host.restart()
      const near = await reconnect(host, worker)
      expect(await sendTime(host, near, host.clock.now())).toMatchObject({ clockDoubted: true })
      const connection = await reconnectFromElsewhere(host, worker)
      expect(await sendTime(host, connection, host.clock.now() - DAY_MS)).toMatchObject({
        clockDoubted: true,
      })
      expect(complaintsOf(host)).toEqual(['warn'])
      const trusted = await sendTime(host, connection, host.clock.now() - 1_000)
      expect([trusted.clock, trusted.clockDoubted]).toEqual([host.clock.now(), undefined])
      await passHours(host, PRUNE_HOURS)
      expect([endedLeases(host), complaintsOf(host)]).toEqual([[], ['warn', 'info']])
    },
  )
})

// ---- sandboxes of workers ------------------------------------------------------------------------------------------

/** A worker holds the sandbox of a run that ended just now, for a day. */
async function retainSandbox(host: HostConversation): Promise<LeasedScriptedWorker> {
  const given = await acceptRun(host)
  const retainedUntil = iso(host.clock.now() + DAY_MS)
  await given.connection.send(given.work.complete({ sandbox: { id: given.runId, retainedUntil } }))
  return given
}

const ask = (runId: string, until: number): WorkerFrame => ({
  type: 'expired-sandboxes',
  sandboxes: [{ runId, retainedUntil: iso(until) }],
})

describe('a worker that asks for what it may discard', () => {
  test('whose clock is ahead hears nothing before the time is over by the host’s clock', async () => {
    const host = await startHost()
    const { connection, worker, runId } = await retainSandbox(host)
    await connection.send(ask(runId, host.clock.now() - HOUR_MS))
    expect(connection.countReceived('discard')).toBe(0)
    await passHours(host, 24)
    const again = await reconnect(host, worker)
    await again.send(ask(runId, host.clock.now()))
    expect(again.lastReceived('discard')).toEqual({ type: 'discard', runId })
  })

  testWithAddresses('hears nothing while the host’s own clock counts as wrong', async () => {
    const host = await startHost()
    const { worker, runId } = await retainSandbox(host)
    host.clock.jumpWallClock(2 * DAY_MS)
    const connection = await reconnectFromElsewhere(host, worker)
    await connection.send(ask(runId, host.clock.now() - DAY_MS))
    expect(connection.countReceived('discard')).toBe(0)
    await sendTime(host, connection, host.clock.now())
    await connection.send(ask(runId, host.clock.now() - DAY_MS))
    expect(connection.countReceived('discard')).toBe(1)
  })

  test('is answered for the sandbox of an attempt that went to another worker, not for an unknown run', async () => {
    const host = await startHost()
    const { runId } = await retainSandbox(host)
    const second = await enroll(host, 'second')
    await second.connection.send(ask('run-unknown', 0), ask(runId, host.clock.now() + 1))
    expect(second.connection.countReceived('discard')).toBe(0)
    await second.connection.send(ask(runId, host.clock.now()))
    expect(second.connection.countReceived('discard')).toBe(1)
  })
})

// ---- finished work -------------------------------------------------------------------------------------------------

const publishes = { publish: true, continuesSessions: true }
const WAITS = { status: 'queued', queueReason: 'worker holder holds the sandbox' }

/** The agent is done, the code host takes none of its work, and the sandbox is kept for a day. */
async function finishUnpublished(ahead = 0) {
  const host = await startHost()
  host.clock.jumpWallClock(ahead)
  const worker = await enroll(host, 'holder', 1, publishes)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = new Work(worker.connection.lastReceived('dispatch'))
  const sandbox = { id: 'box-1', retainedUntil: iso(host.clock.now() + DAY_MS), unpublished: true }
  const unpublished = { failure: 'publish', error: 'a rule refused the push', sandbox } as const
  await worker.connection.send(work.accept())
  await worker.connection.sendHeartbeat(work)
  await worker.connection.send(work.complete({ status: 'failed', ...unpublished }))
  return { host, worker, ...worker, runId: work.runId }
}

/** By the clock that is weeks ahead, the time of every sandbox is over. */
async function loseClock(host: HostConversation): Promise<void> {
  host.clock.jumpWallClock(40 * DAY_MS)
  await host.advance(120)
}

describe('while the host’s clock counts as wrong, finished work', () => {
  test('waits for its worker alone, across a restart', async () => {
    const { host, worker, connection, runId } = await finishUnpublished()
    const idle = await enroll(host, 'idle', 2, publishes)
    await idle.connection.sendHeartbeat()
    await connection.drop()
    await loseClock(host)
    await host.restart()
    const freer = host.connect('idle')
    await freer.send({ ...registerWithCredential(idle), capabilities: { ...capabilities, ...publishes } })
    await host.advanceWithHeartbeats(600, [freer])
    expect(host.run(runId)).toMatchObject(WAITS)
    expect(freer.hasReceived('dispatch')).toBe(false)
    const again = host.connect('holder')
    await again.send({ ...registerWithCredential(worker), capabilities: { ...capabilities, ...publishes } })
    expect(again.lastReceived('dispatch').job.kind).toBe('publish')
  })

  test('waits again when the lease that publishes it is lost', async () => {
    const { host, connection, runId } = await finishUnpublished()
    await host.advanceWithHeartbeats(60, [connection])
    await connection.send(new Work(connection.lastReceived('dispatch')).accept())
    await connection.drop()
    await loseClock(host)
    await host.advance(200)
    expect(host.run(runId)).toMatchObject(WAITS)
  })

  test('is what a retry publishes, so no agent is paid again', async () => {
    const { host, connection, runId } = await finishUnpublished()
    await host.succeeded(host.hostApi.cancelRun(runId))
    host.clock.jumpWallClock(40 * DAY_MS)
    await host.succeeded(host.hostApi.retryRun(runId))
    expect(connection.lastReceived('dispatch').job.kind).toBe('publish')
  })

  test('is not lost before its time by the clock that was set right', async () => {
    const { host, connection, runId } = await finishUnpublished()
    await connection.drop()
    await loseClock(host)
    host.clock.jumpWallClock(-40 * DAY_MS)
    await passHours(host, 23)
    expect(host.run(runId)).toMatchObject(WAITS)
    await passHours(host, 1)
    expect(host.run(runId)).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^its work could not be published while its sandbox was kept: /),
    })
  })

  test('is published again soon when the clock is set right', async () => {
    const { host, connection } = await finishUnpublished(40 * DAY_MS)
    host.clock.jumpWallClock(-40 * DAY_MS)
    await host.advanceWithHeartbeats(180, [connection])
    expect(connection.lastReceived('dispatch').job.kind).toBe('publish')
  })

  test('is published again soon when the clock was set right before a start', async () => {
    const { host, worker, connection } = await finishUnpublished(40 * DAY_MS)
    await connection.drop()
    host.clock.jumpWallClock(-40 * DAY_MS)
    await host.restart()
    const again = host.connect('holder')
    await again.send({ ...registerWithCredential(worker), capabilities: { ...capabilities, ...publishes } })
    await host.advanceWithHeartbeats(180, [again])
    expect(again.lastReceived('dispatch').job.kind).toBe('publish')
  })

  testWithAddresses('is lost in the end when another machine agrees with the clock', async () => {
    const { host, connection, runId } = await finishUnpublished()
    const idle = await enroll(host, 'idle', 2, publishes)
    await connection.drop()
    await loseClock(host)
    const elsewhere = await reconnectFromElsewhere(host, idle)
    await sendTime(host, elsewhere, host.clock.now())
    await host.advance(60)
    expect(host.run(runId).status).toBe('failed')
  })
})

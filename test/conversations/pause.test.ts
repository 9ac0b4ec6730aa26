/** An operator pauses dispatching: queued runs wait, running work continues, and a restart changes nothing. */
import { expect, test } from '@jest/globals'
import { PAUSED_REASON } from '../../core/fleet/placement.ts'
import { yes } from '../../core/result.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import {
  acceptRun,
  configWith,
  enroll,
  HostConversation,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const PAUSED = configWith({ policy: { paused: true } })
const URL = manualPullUrl('owner/name', 1)
const HOUR = 3_600

const pause = (host: HostConversation) => host.succeeded(host.hostApi.setPaused(true))
const resume = (host: HostConversation) => host.succeeded(host.hostApi.setPaused(false))

function reasonOf(host: HostConversation, identifier: string): string | undefined {
  const { id } = host.runOf(identifier)
  const placement = host.hostApi.placement(id)
  const { queueReason } = host.run(id)
  return placement.ok && placement.value.reason === queueReason
    ? queueReason
    : `${queueReason}, but not placed`
}

test('a host that is paused from the start shows what it would dispatch, and dispatches nothing', async () => {
  const host = await startHost(PAUSED)
  const moves: string[] = []
  host.tracker.moveTicket = async (id) => {
    moves.push(id)
    return yes(undefined)
  }
  const { connection, workerId } = await enroll(host)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.advanceWithHeartbeats(HOUR, [connection])
  for (const name of ['ENG-1', 'ENG-2']) expect(reasonOf(host, name)).toBe(PAUSED_REASON)
  expect(connection.countReceived('dispatch')).toBe(0)
  expect(host.hostApi.demand(workerId)).toMatchObject({ value: { queuedRuns: 0, spareCapacity: 2 } })
  expect(moves).toEqual([])
  expect(await resume(host)).toEqual({ paused: false })
  expect(connection.countReceived('dispatch')).toBe(1)
  expect(host.run(host.runOf('ENG-2').id).queueReason).toBe('waiting for ENG-1')
})

test('while dispatching is paused, each run says what would hold it back after the resume', async () => {
  const host = await startHost(PAUSED)
  await enroll(host, 'worker', 1)
  host.tracker.put(
    ticket('ENG-1'),
    ticket('ENG-2', { blockedBy: ['ENG-1'] }),
    ticket('ENG-3', { repo: 'none' }),
  )
  await host.settle()
  const obstaclesOf = (identifier: string) => {
    const explained = host.hostApi.explainRun(host.runOf(identifier).id)
    if (!explained.ok) throw new Error(explained.refusal.message)
    return explained.value.gates.filter(({ status }) => status !== 'pass').map(({ id }) => id)
  }
  expect(obstaclesOf('ENG-1')).toEqual(['policy'])
  expect(obstaclesOf('ENG-2')).toEqual(['blockers', 'policy'])
  expect(obstaclesOf('ENG-3')).toEqual(['repository', 'policy'])
})

test('running work continues while dispatching is paused, and queued runs wait for the resume', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host, 'ENG-1', 1)
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(await pause(host)).toEqual({ paused: true })
  await connection.send(work.running(), work.complete())
  await host.advanceWithHeartbeats(HOUR, [connection])
  expect(host.run(runId).status).toBe('completed')
  expect([host.runOf('ENG-2').status, reasonOf(host, 'ENG-2')]).toEqual(['queued', PAUSED_REASON])
  expect(connection.countReceived('dispatch')).toBe(1)
  await resume(host)
  expect(connection.countReceived('dispatch')).toBe(2)
})

test('a pause is in the settings file and survives a restart, and an edit by hand ends it', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await pause(host)
  expect(JSON.parse((await host.store.config.read()) ?? '')).toMatchObject({ policy: { paused: true } })
  await host.restart()
  const connection = await reconnect(host, worker)
  host.tracker.put(ticket('ENG-1'))
  await host.advanceWithHeartbeats(HOUR, [connection])
  expect([reasonOf(host, 'ENG-1'), connection.countReceived('dispatch')]).toEqual([PAUSED_REASON, 0])
  host.store.config.edit(configWith({}))
  await host.advance(1)
  expect(connection.countReceived('dispatch')).toBe(1)
})

test('a pause between the grant of a lease and its dispatch holds the run back', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  const { config } = host.store
  const replace = config.replace.bind(config)
  let write: () => void = () => {}
  config.replace = async (...args) => {
    await new Promise<void>((resolve) => {
      write = resolve
    })
    return replace(...args)
  }
  const paused = host.hostApi.setPaused(true)
  await host.settle()
  host.beforeCommit('lease', () => write())
  host.tracker.put(ticket('ENG-1'))
  expect(await host.succeeded(paused)).toEqual({ paused: true })
  config.replace = replace
  await host.advanceWithHeartbeats(60, [connection])
  expect(connection.countReceived('dispatch')).toBe(0)
  expect([host.runOf('ENG-1').status, reasonOf(host, 'ENG-1')]).toEqual(['queued', PAUSED_REASON])
  await resume(host)
  expect(connection.countReceived('dispatch')).toBe(1)
})

test('a follow-up waits as well', async () => {
  const host = new HostConversation(configWith({}))
  const pulls = new ManualPullRequests()
  host.overrides = { pulls: () => yes(pulls) }
  await host.start()
  pulls.pulls.set(URL, 'open')
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete({ prUrl: URL, prState: 'open' }))
  await pause(host)
  await host.succeeded(host.hostApi.followUpRun(runId))
  await host.advanceWithHeartbeats(60, [connection])
  expect([host.run(runId).queueReason, connection.countReceived('dispatch')]).toEqual([PAUSED_REASON, 1])
  await resume(host)
  await host.advanceWithHeartbeats(10, [connection])
  expect(connection.lastReceived('dispatch').job.kind).toBe('follow-up')
})

test('dashboards see the pause at once', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.advance(5)
  const pushes = host.recordPushes()
  await pause(host)
  await host.advance(1)
  expect(pushes).toContainEqual(expect.objectContaining({ type: 'config' }))
  const reasons = pushes.flatMap((push) => (push.type === 'run-updated' ? push.run.queueReason : []))
  expect(reasons.at(-1)).toBe(PAUSED_REASON)
})

test('a run whose worker is lost during a pause waits, with both reasons', async () => {
  const host = await startHost()
  const { connection, worker, runId } = await acceptRun(host)
  await pause(host)
  await connection.drop()
  await host.advance(200)
  const again = await reconnect(host, worker)
  expect(host.run(runId).queueReason).toMatch(/^interrupted: .*; paused$/)
  await resume(host)
  expect(new Work(again.lastReceived('dispatch')).runId).toBe(runId)
})

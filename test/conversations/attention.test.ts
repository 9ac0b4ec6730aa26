/** The list of what needs a person: items appear and vanish with their cause, and dashboards receive the list. */
import { expect, test } from '@jest/globals'
import { ATTENTION_PUSH_MS } from '../../actors/attention/attention-broadcast.ts'
import { RUN_PUSH_MS } from '../../actors/dashboard/module.ts'
import { PULL_POLL_MS } from '../../actors/runs/pull-state-poller.ts'
import { DISK_FULL, FLEET_REASONS, REPORTS_WAIT } from '../../core/fleet/placement.ts'
import { no, yes } from '../../core/result.ts'
import type { AttentionItem } from '../../protocol/attention.ts'
import { WORKER_BACKOFF_MS } from '../../protocol/limits.ts'
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

const URL = manualPullUrl('owner/name', 1)

const itemsOf = (host: HostConversation): AttentionItem[] => host.hostApi.attention().items
const kindsOf = (host: HostConversation) => itemsOf(host).map(({ kind }) => kind)

test('a failed run needs a person until it is retried, after a restart too', async () => {
  const host = await startHost()
  const { connection, work, runId, worker } = await acceptRun(host)
  const pushes = host.recordPushes()
  await connection.send(work.complete({ status: 'failed', error: 'the tests fail' }))
  await host.clock.advance(ATTENTION_PUSH_MS)
  const [item] = itemsOf(host)
  expect(item).toMatchObject({ kind: 'failed', message: 'failed: the tests fail', runId, ticketId: 'ENG-1' })
  expect(pushes.filter(({ type }) => type === 'attention')).toEqual([{ type: 'attention', items: [item] }])
  await host.restart()
  expect(itemsOf(host)).toEqual([item])
  const again = host.recordPushes()
  await host.succeeded(host.hostApi.retryRun(runId))
  expect(itemsOf(host)).toEqual([])
  await reconnect(host, worker)
  await host.clock.advance(ATTENTION_PUSH_MS)
  expect(again.filter(({ type }) => type === 'attention')).toEqual([{ type: 'attention', items: [] }])
})

test('a full disk is named, pushed and degrades the health until there is room again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const pushes = host.recordPushes()
  expect(host.hostApi.health()).not.toHaveProperty('degraded')
  host.fillDisk()
  await connection.send(work.running())
  await host.clock.advance(2 * ATTENTION_PUSH_MS)
  expect(kindsOf(host)).toEqual(['disk'])
  expect(pushes).toContainEqual({ type: 'attention', items: itemsOf(host) })
  expect(host.hostApi.health()).toMatchObject({ ok: true, degraded: [expect.stringContaining('disk')] })
  await host.freeDisk()
  await host.clock.advance(2 * ATTENTION_PUSH_MS)
  expect(pushes.findLast(({ type }) => type === 'attention')).toEqual({ type: 'attention', items: [] })
  expect(host.hostApi.health()).not.toHaveProperty('degraded')
})

test('a queued run without a repository needs a person until one is configured', async () => {
  const host = new HostConversation(configWith({ repos: { web: { remote: 'owner/web', label: 'web' } } }))
  await host.start()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const { id } = host.runOf('ENG-1')
  const message = expect.stringMatching(/^no repository is for ENG-1: give it a label/)
  expect(itemsOf(host)).toMatchObject([{ kind: 'codehost', runId: id, message }])
  expect(host.hostApi.health()).not.toHaveProperty('degraded')
  host.tracker.put({ ...ticket('ENG-1'), labels: [...ticket('ENG-1').labels, 'web'] })
  await host.settle()
  expect(itemsOf(host)).toEqual([])
})

test('a worker whose disk is full is named while a run waits for it, since the first refusal', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  const { connection } = worker
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const shortage = 'room for 512 MiB, a run needs 1024'
  const refuse = () =>
    connection.send(new Work(connection.lastReceived('dispatch')).reject(`disk: ${shortage}`))
  await refuse()
  const [item] = itemsOf(host)
  expect(item).toMatchObject({ kind: 'disk', message: expect.stringContaining(shortage) })
  const reason = `the disk of worker ${worker.name} is full (${shortage})`
  const run = host.hostApi.run(host.runOf('ENG-1').id)
  expect(run.ok && run.value.queueReason).toBe(reason)
  expect(host.hostApi.health()).not.toHaveProperty('degraded')
  await host.clock.advance(WORKER_BACKOFF_MS)
  await refuse()
  expect(itemsOf(host)).toEqual([item])
  await host.clock.advance(WORKER_BACKOFF_MS)
  await connection.send(new Work(connection.lastReceived('dispatch')).accept())
  expect(itemsOf(host)).toEqual([])
})

test('on a full disk each run says why it goes no further, and dashboards hear when that is over', async () => {
  const host = await startHost()
  const { runId } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  const waiting = host.runOf('ENG-3').id
  const pushes = host.recordPushes()
  const reasonsOf = (id: string) => {
    const run = host.hostApi.run(id)
    return run.ok ? [run.value.queueReason, run.value.waitReason] : []
  }
  const pushedReasons = () =>
    [runId, waiting].map((id) => {
      const last = pushes.findLast((push) => push.type === 'run-updated' && push.run.id === id)
      return last?.type === 'run-updated' ? [last.run.queueReason, last.run.waitReason] : []
    })
  host.fillDisk()
  const full = [
    [undefined, REPORTS_WAIT],
    [DISK_FULL.reason, undefined],
  ]
  expect([runId, waiting].map(reasonsOf)).toEqual(full)
  expect(pushedReasons()).toEqual(full)
  await host.freeDisk()
  await host.clock.advance(RUN_PUSH_MS)
  const free = [
    [undefined, undefined],
    [FLEET_REASONS.full, undefined],
  ]
  expect([runId, waiting].map(reasonsOf)).toEqual(free)
  expect(pushedReasons()).toEqual(free)
})

test('a repository that can’t be reached is named until a worker reads it', async () => {
  const host = await startHost()
  const { connection, work, runId, worker } = await acceptRun(host)
  const error = "owner/name can't be read: the code host could not be reached"
  await connection.send(work.complete({ status: 'failed', failure: 'network', error }))
  const message = `${error}; waiting for it: ENG-1`
  expect(itemsOf(host)).toMatchObject([{ kind: 'codehost', message, cure: 'switchyard explain ENG-1' }])
  expect(host.hostApi.health().degraded).toEqual([expect.stringContaining('code host')])
  const found = itemsOf(host)
  await host.crash()
  await host.advance(60)
  expect(itemsOf(host)).toEqual(found)
  // A try is no end of the trouble.
  const again = await reconnect(host, worker)
  await again.send(new Work(again.lastReceived('dispatch')).accept())
  // A worker tries it, so no run waits for it now.
  expect(host.runOf('ENG-1').status).toBe('preparing')
  const tried = [{ ...found[0], message: error, cure: 'switchyard doctor' }]
  expect(itemsOf(host)).toEqual(tried)
  await host.restart()
  expect(itemsOf(host)).toEqual(tried)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(600)
  expect([itemsOf(host), host.hostApi.health().degraded]).toEqual([[], undefined])
})

test('a usage limit is named until it is over', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const pushes = host.recordPushes()
  const resetsAt = new Date(host.clock.now() + 60_000).toISOString()
  const at = new Date(host.clock.now()).toISOString()
  const { event: _, ...frame } = work.event()
  await connection.send({
    ...frame,
    event: { type: 'limit', at, provider: 'agentB', message: 'wait', resetsAt },
  })
  await connection.send(
    work.complete({ status: 'failed', error: 'the usage limit is reached', failure: 'limit' }),
  )
  expect(itemsOf(host)).toMatchObject([{ kind: 'limit', message: `usage limit of agentB until ${resetsAt}` }])
  await host.advanceWithHeartbeats(62, [connection])
  expect(kindsOf(host)).toEqual(['failed'])
  const kinds = pushes.flatMap((push) =>
    push.type === 'attention' ? [push.items.map(({ kind }) => kind).join()] : [],
  )
  expect(kinds).toEqual(['limit', 'failed'])
})

test('a usage limit without an end is known after a restart', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const at = new Date(host.clock.now()).toISOString()
  const { event: _, ...frame } = work.event()
  await connection.send({ ...frame, event: { type: 'limit', at, provider: 'agentB', message: 'wait' } })
  await connection.send(work.complete({ status: 'failed', error: 'the limit', failure: 'limit' }))
  const limited = itemsOf(host)
  expect(limited).toMatchObject([{ kind: 'limit', message: 'usage limit of agentB' }])
  await host.crash()
  expect(itemsOf(host)).toEqual(limited)
})

async function startWithOpenPull() {
  const host = new HostConversation(configWith({}))
  const pulls = new ManualPullRequests()
  host.overrides = { pulls: () => yes(pulls) }
  await host.start()
  pulls.pulls.set(URL, 'open')
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete({ prUrl: URL, prState: 'open' }))
  await host.advanceWithHeartbeats(5, [connection])
  return { host, pulls, connection }
}

test('an open pull request asks for a review until it is merged; a conflict comes first', async () => {
  const { host, pulls } = await startWithOpenPull()
  expect(itemsOf(host)).toMatchObject([
    { kind: 'review', pull: { repo: 'main', remote: 'owner/name', number: 1, url: URL } },
  ])
  const { detail } = pulls
  for (const [mergeableState, kind] of [
    ['dirty', 'conflict'],
    ['clean', 'review'],
  ] as const) {
    pulls.detail = async (place) => {
      const found = await detail.call(pulls, place)
      return found.ok ? yes({ ...found.value, url: URL, mergeableState }) : found
    }
    await host.succeeded(host.hostApi.pull('main', 1))
    const found = itemsOf(host)
    expect(found).toMatchObject([{ kind }])
    await host.crash()
    expect(itemsOf(host)).toEqual(found)
  }
  pulls.pulls.set(URL, 'merged')
  await host.succeeded(host.hostApi.runPull(host.runOf('ENG-1').id))
  expect(itemsOf(host)).toEqual([])
})

test('red checks are named until the checks pass or a follow-up has ended, not until a look at them fails', async () => {
  const { host, pulls, connection } = await startWithOpenPull()
  const { detail } = pulls
  const lint = { name: 'lint', status: 'completed', source: 'check-run' } as const
  const showChecks = async (conclusion: string | undefined) => {
    const found = {
      url: URL,
      checks: conclusion === undefined ? [] : [{ ...lint, conclusion }],
      ...(conclusion === undefined ? { checksLookupFailed: true } : {}),
    }
    pulls.detail = async (place) => {
      const answer = await detail.call(pulls, place)
      return answer.ok ? yes({ ...answer.value, ...found }) : answer
    }
    await host.succeeded(host.hostApi.pull('main', 1))
    return itemsOf(host).map(({ message }) => message)
  }
  const red = [expect.stringMatching(/^checks red on /)]
  const asked = [expect.stringMatching(/^review asked on /)]
  expect(await showChecks('failure')).toEqual(red)
  expect(await showChecks(undefined)).toEqual(red)
  expect(await showChecks('success')).toEqual(asked)
  expect(await showChecks('failure')).toEqual(red)
  await host.succeeded(host.hostApi.followUpRun(host.runOf('ENG-1').id))
  await host.settle()
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.complete({ prUrl: URL, prState: 'open' }))
  await host.advanceWithHeartbeats(5, [connection])
  expect(itemsOf(host).map(({ message }) => message)).toEqual(asked)
})

test('a missing credential needs a person while a run waits for it', async () => {
  const host = await startHost()
  await enroll(host, 'worker', 2, { agents: { agentA: { found: true } } })
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(itemsOf(host)).toMatchObject([{ kind: 'login', cure: 'switchyard connect codehost' }])
  await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-1').id))
  expect(itemsOf(host)).toEqual([])
})

test('a worker that stays away with a run needs a person, until it is back', async () => {
  const host = await startHost()
  const { connection, worker, work } = await acceptRun(host)
  await connection.drop()
  expect(itemsOf(host)).toEqual([])
  await host.advance(60)
  expect(itemsOf(host)).toMatchObject([{ kind: 'worker-away', id: `worker-away:${worker.workerId}` }])
  await reconnect(host, worker, work)
  expect(itemsOf(host)).toEqual([])
})

test('a worker that does not come back after a restart of the host needs a person after a while', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.advanceWithHeartbeats(120, [connection, work])
  await connection.drop()
  const seenAt = host.hostApi.fleet().workers[0]?.lastSeenAt
  await host.advance(60)
  await host.crash()
  expect(itemsOf(host)).toEqual([])
  await host.advance(60)
  expect(itemsOf(host)).toMatchObject([{ kind: 'worker-away', since: seenAt }])
})

test('a tracker that does not answer needs a person until it does', async () => {
  const host = await startHost()
  const { listTickets } = host.tracker
  host.tracker.listTickets = async () => no('unavailable', 'no answer')
  await host.advance(60)
  const [item] = itemsOf(host)
  expect(item).toMatchObject({ id: 'tracker', kind: 'tracker' })
  await host.advance(60)
  expect(itemsOf(host)).toEqual([item])
  let answer = () => {}
  host.tracker.listingGate = new Promise((resolve) => {
    answer = resolve
  })
  host.tracker.listTickets = listTickets
  await host.crash()
  expect(itemsOf(host)).toEqual([item])
  answer()
  await host.advance(60)
  expect(itemsOf(host)).toEqual([])
})

test('a repository whose pull requests can’t be read is named until they can, after a restart too', async () => {
  const { host, pulls, connection } = await startWithOpenPull()
  pulls.refusal = no('unavailable', 'no answer')
  await host.advanceWithHeartbeats(PULL_POLL_MS / 1000, [connection])
  const message = expect.stringMatching(/^owner\/name can't be read: no answer; .* pull requests of ENG-1$/)
  const item = { kind: 'codehost', message, cure: 'switchyard doctor' }
  expect(itemsOf(host)).toMatchObject([{ kind: 'review' }, item])
  const found = itemsOf(host)
  await host.crash()
  expect(itemsOf(host)).toEqual(found)
  pulls.refusal = undefined
  await host.advance(PULL_POLL_MS / 1000)
  expect(kindsOf(host)).toEqual(['review'])
})

test('a follow-up whose pull request can’t be read names the repository until it can, after a restart too', async () => {
  const { host, pulls, connection } = await startWithOpenPull()
  const { detail } = pulls
  pulls.detail = async () => no('unavailable', 'HTTP 503')
  const { id } = host.runOf('ENG-1')
  await host.succeeded(host.hostApi.followUpRun(id))
  await host.advanceWithHeartbeats(2, [connection])
  const found = itemsOf(host)
  const message = "owner/name can't be read: HTTP 503; waiting for it: ENG-1"
  expect(found).toMatchObject([{ kind: 'codehost', message, cure: 'switchyard explain ENG-1' }])
  // The host reads the states of pull requests all the while.
  await host.advanceWithHeartbeats(PULL_POLL_MS / 1000, [connection])
  expect(itemsOf(host)).toEqual(found)
  await host.crash()
  expect(itemsOf(host)).toEqual(found)
  await host.succeeded(host.hostApi.cancelRun(id))
  expect(kindsOf(host)).not.toContain('codehost')
  pulls.detail = detail
})

test('a follow-up whose pull request is read in the end names nothing any more', async () => {
  const { host, pulls, connection } = await startWithOpenPull()
  const { detail } = pulls
  pulls.detail = async () => no('unavailable', 'HTTP 503')
  await host.succeeded(host.hostApi.followUpRun(host.runOf('ENG-1').id))
  await host.advanceWithHeartbeats(2, [connection])
  expect(kindsOf(host)).toEqual(['codehost'])
  pulls.detail = detail
  await host.advanceWithHeartbeats(60, [connection])
  expect(kindsOf(host)).toEqual([])
  expect(connection.lastReceived('dispatch').job.kind).toBe('follow-up')
})

/** Pull requests that workers report: the code host confirms them, and a worker's word alone changes nothing. */
import { describe, expect, test } from '@jest/globals'
import { no, type Result, yes } from '../../core/result.ts'
import { runMarker } from '../../core/run/run-pull.ts'
import { type ManualPullOrigin, ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import { acceptRun, configWith, HostConversation, reconnect, Work } from './host-conversation.ts'

const URL = manualPullUrl('owner/name', 7)
const SILENCE_S = 165
const REPOS = { main: { remote: 'owner/name' } }

async function startWithRun(config: object = {}) {
  const host = new HostConversation(configWith({ repos: REPOS, ...config }))
  const codeHost = new ManualPullRequests()
  let connected: Result<ManualPullRequests> = yes(codeHost)
  host.overrides = { pulls: () => connected }
  await host.start()
  const links: string[] = []
  host.tracker.linkPull = async (_, { url }) => {
    links.push(url)
    return yes(undefined)
  }
  const leased = await acceptRun(host)
  const { id: leaseId, runId } = leased.work
  const marker = runMarker({ runId, leaseId })
  const openPull = (origin: ManualPullOrigin = { body: `Done.\n\n${marker}` }, url = URL) => {
    codeHost.pulls.set(url, 'open')
    codeHost.origins.set(url, origin)
  }
  const disconnect = () => {
    connected = no('invalid', 'the code host is not connected; connect GitHub')
  }
  const connect = () => {
    connected = yes(codeHost)
  }
  return { host, codeHost, links, marker, openPull, connect, disconnect, ...leased }
}

type Started = Awaited<ReturnType<typeof startWithRun>>

/** The worker reports this pull request as merged, and is never heard again. */
async function reportAndVanish({ host, connection, work }: Started, prUrl: string): Promise<void> {
  await connection.send(work.running(), work.patch({ prUrl, prState: 'merged', status: 'finalizing' }))
  await host.advance(SILENCE_S)
}

const linesOf = async (host: HostConversation, runId: string): Promise<string[]> =>
  (await host.events(runId)).filter((line) => line.startsWith('system '))

// ---- adoption ----------------------------------------------------------------------------------------------------

test('the honest case: a run whose worker vanished is completed by its own pull request', async () => {
  const made = await startWithRun()
  made.openPull()
  await reportAndVanish(made, URL)
  expect(made.host.run(made.runId)).toMatchObject({
    status: 'completed',
    prUrl: URL,
    prState: 'open',
    pull: { remote: 'owner/name', number: 7, branch: 'switchyard/eng-1', confirmed: true },
    result: { prUrl: URL },
  })
  expect(made.links).toEqual([URL])
})

test('a second lease adopts the pull request that the first lease of the run opened', async () => {
  const made = await startWithRun()
  made.openPull()
  const { host, worker, connection, work, runId } = made
  await connection.send(work.complete({ status: 'failed', error: 'no luck' }))
  await host.succeeded(host.hostApi.retryRun(runId))
  const again = new Work(connection.lastReceived('dispatch'))
  await connection.send(again.accept())
  await connection.send(again.patch({ prUrl: URL }))
  await host.advance(SILENCE_S)
  expect(host.run(runId)).toMatchObject({ status: 'completed', prUrl: URL })
  expect((await reconnect(host, worker, again)).lastReceived('lease-lost').leaseId).toBe(again.id)
})

describe('an address that is not of the run’s repository is dropped when it arrives', () => {
  test.each([
    ['a file of the host', 'file:///etc/passwd'],
    ['another repository', manualPullUrl('owner/other', 7)],
    ['another code host', 'https://evil.example.net/pull/7'],
    ['an address with a password', 'https://a:b@codehost.example/owner/name/pull/7'],
    ['an address that leads on', `${URL}?next=https://evil.example.net`],
  ])('%s', async (_, prUrl) => {
    const made = await startWithRun()
    made.codeHost.pulls.set(manualPullUrl('owner/other', 7), 'merged')
    const { host, codeHost, connection, runId } = made
    await reportAndVanish(made, prUrl)
    const run = host.run(runId)
    expect(run.status).toBe('queued')
    for (const field of ['prUrl', 'prState', 'pull', 'result']) expect(run).not.toHaveProperty(field)
    expect([codeHost.requests, codeHost.comments, made.links]).toEqual([[], [], []])
    expect(await linesOf(host, runId)).toEqual([expect.stringContaining('was not kept')])
    // The frame itself was acknowledged, so the worker does not send it for ever.
    expect(connection.hasReceived('lease-lost')).toBe(false)
  })
})

test('an outcome that names a foreign pull request completes the run without one', async () => {
  const { host, codeHost, connection, work, runId, links } = await startWithRun()
  const prUrl = 'file:///etc/passwd'
  await connection.send(
    work.complete({ prUrl, prState: 'merged', result: { prUrl, summary: 'done', artifacts: [] } }),
  )
  await host.advance(600)
  const run = host.run(runId)
  expect(run).toMatchObject({ status: 'completed', result: { summary: 'done', artifacts: [] } })
  expect(JSON.stringify(run)).not.toContain('passwd')
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect([codeHost.requests, links]).toEqual([[], []])
})

describe('a pull request of the run’s repository is adopted only when it is the run’s own', () => {
  test.each<[string, (made: Started) => void]>([
    ['nobody has opened it', () => {}],
    ['its branch is somebody else’s', ({ openPull, marker }) => openPull({ branch: 'bo/fix', body: marker })],
    ['its branch is in a fork', ({ openPull, marker }) => openPull({ headRemote: 'bo/name', body: marker })],
    ['it has no marker', ({ openPull }) => openPull({ body: 'A change by bo.' })],
    [
      'its marker names another run',
      ({ openPull, work }) => openPull({ body: runMarker({ runId: 'run-other', leaseId: work.id }) }),
    ],
    [
      'its marker names a lease that the run never had',
      ({ openPull, runId }) => openPull({ body: runMarker({ runId, leaseId: 'ls-forged' }) }),
    ],
  ])('%s', async (_, prepare) => {
    const made = await startWithRun()
    prepare(made)
    await reportAndVanish(made, URL)
    await made.host.advance(30)
    const run = made.host.run(made.runId)
    expect(run.status).toBe('queued')
    expect(run.queueReason).toMatch(/^interrupted: /)
    expect(run.prState).not.toBe('merged')
    expect(made.codeHost.comments).toEqual([])
    expect(made.host.census().unconfirmedPulls).toBe(0)
  })
})

test('a pull request of somebody else’s branch is dropped from a completed run', async () => {
  const { host, connection, work, runId, openPull, links } = await startWithRun()
  openPull({ branch: 'bo/fix' })
  await connection.send(work.complete({ prUrl: URL, result: { prUrl: URL, summary: 'done', artifacts: [] } }))
  await host.advance(10)
  expect(host.run(runId)).toMatchObject({ status: 'completed', result: { summary: 'done' } })
  expect(JSON.stringify(host.run(runId))).not.toContain(URL)
  expect(links).toEqual([])
  expect(await host.settled(host.hostApi.followUpRun(runId))).toMatchObject({ refusal: { kind: 'invalid' } })
})

// ---- the state ---------------------------------------------------------------------------------------------------

test('a reported state is never stored: the code host is asked at once', async () => {
  const { host, connection, work, runId, openPull, codeHost } = await startWithRun()
  openPull()
  await connection.send(work.patch({ prUrl: URL, prState: 'merged' }))
  expect(host.run(runId)).toMatchObject({ prState: 'open', pull: { confirmed: true } })
  await host.advance(6)
  codeHost.requests = []
  codeHost.pulls.set(URL, 'draft')
  await connection.send(work.patch({ prUrl: URL, prState: 'closed' }))
  expect(codeHost.requests).toEqual(['states owner/name 7 person'])
  expect(host.run(runId).prState).toBe('draft')
})

describe('right after a completion, before the code host was asked', () => {
  async function completeUnconfirmed() {
    const made = await startWithRun()
    const { codeHost, connection, work } = made
    codeHost.refusal = no('unavailable', 'GitHub answered 502')
    const result = { prUrl: URL, artifacts: [] }
    await connection.send(work.complete({ prUrl: URL, prState: 'draft', result }))
    return made
  }

  test('the run has no state, and /pr answers how the worker has opened it', async () => {
    const { host, runId, codeHost, openPull } = await completeUnconfirmed()
    expect(host.run(runId)).toMatchObject({ status: 'completed', prUrl: URL, pull: { confirmed: false } })
    expect(host.run(runId)).not.toHaveProperty('prState')
    expect(await host.succeeded(host.hostApi.runPull(runId))).toEqual({ url: URL, number: 7, state: 'draft' })
    openPull()
    codeHost.refusal = undefined
    await host.advance(60)
    expect(host.run(runId)).toMatchObject({ prState: 'open', pull: { confirmed: true } })
    expect(host.run(runId).pull).not.toHaveProperty('openedAs')
    expect(await host.succeeded(host.hostApi.runPull(runId))).toMatchObject({ state: 'open' })
  })

  test('a follow-up asks the code host first', async () => {
    const { host, runId, codeHost, openPull } = await completeUnconfirmed()
    openPull()
    codeHost.refusal = undefined
    expect(await host.succeeded(host.hostApi.followUpRun(runId))).toMatchObject({
      status: 'queued',
      prState: 'open',
    })
  })

  test('a follow-up of somebody else’s pull request is refused', async () => {
    const { host, runId, codeHost, openPull } = await completeUnconfirmed()
    openPull({ branch: 'bo/fix' })
    codeHost.refusal = undefined
    expect(await host.settled(host.hostApi.followUpRun(runId))).toMatchObject({
      refusal: { kind: 'invalid' },
    })
  })
})

// ---- a code host that cannot be asked ----------------------------------------------------------------------------

describe('while the code host cannot be asked', () => {
  test.each<[string, (made: Started) => void, (made: Started) => void]>([
    [
      'it is down',
      ({ codeHost }) => {
        codeHost.refusal = no('unavailable', 'GitHub answered 502')
      },
      ({ codeHost }) => {
        codeHost.refusal = undefined
      },
    ],
    ['it is not connected', ({ disconnect }) => disconnect(), ({ connect }) => connect()],
  ])(
    'a run whose worker vanished waits, across a restart, and is adopted afterwards: %s',
    async (_, close, open) => {
      const made = await startWithRun()
      const { host, runId, connection, work } = made
      made.openPull()
      const startedAt = host.run(runId).startedAt
      close(made)
      await reportAndVanish(made, URL)
      await host.advance(600)
      const waiting = await host.succeeded(Promise.resolve(host.hostApi.run(runId)))
      expect(waiting.status).toBe('queued')
      expect(waiting.queueReason).toMatch(/has not confirmed it: (GitHub answered 502|.*connect GitHub)/)
      await reconnect(host, made.worker)
      expect(connection.lastReceived('dispatch').lease.id).toBe(work.id)
      await host.crash()
      await host.advance(30)
      expect(host.run(runId).status).toBe('queued')
      open(made)
      await host.advance(150)
      expect(host.run(runId)).toMatchObject({ status: 'completed', prUrl: URL, startedAt })
    },
  )

  test('the run fails after an hour, with the reason', async () => {
    const made = await startWithRun()
    made.openPull()
    made.disconnect()
    await reportAndVanish(made, URL)
    await made.host.advance(3_600 + 180)
    expect(made.host.run(made.runId).status).toBe('failed')
    expect(made.host.run(made.runId).error).toMatch(/connect GitHub; retry the run/)
  })

  test('a person cancels the waiting run', async () => {
    const made = await startWithRun()
    made.disconnect()
    await reportAndVanish(made, URL)
    await made.host.succeeded(made.host.hostApi.cancelRun(made.runId))
    expect(made.host.run(made.runId).status).toBe('cancelled')
  })

  test('a ticket that leaves the eligible ones does not cancel the waiting run', async () => {
    const made = await startWithRun()
    made.openPull()
    made.disconnect()
    await reportAndVanish(made, URL)
    made.host.tracker.tickets.clear()
    made.host.tracker.announceChange()
    await made.host.advance(60)
    expect(made.host.run(made.runId).status).toBe('queued')
  })

  test('a completed run is not followed up, linked or polled until its pull request is confirmed', async () => {
    const { host, connection, work, runId, links, codeHost, disconnect, connect, openPull } =
      await startWithRun()
    openPull()
    disconnect()
    await connection.send(work.complete({ prUrl: URL, result: { prUrl: URL, artifacts: [] } }))
    connect()
    codeHost.refusal = no('unavailable', 'GitHub answered 502')
    await host.advance(1)
    const refused = await host.settled(host.hostApi.followUpRun(runId))
    expect(refused).toMatchObject({ refusal: { message: expect.stringContaining('not confirmed') } })
    expect(links).toEqual([])
    await host.crash()
    codeHost.refusal = undefined
    await host.advance(30)
    expect(host.run(runId)).toMatchObject({ prState: 'open', pull: { confirmed: true } })
    expect(links).toEqual([URL])
    await host.succeeded(host.hostApi.followUpRun(runId))
  })
})

// ---- follow-ups --------------------------------------------------------------------------------------------------

test('the worker of a follow-up cannot move its run to another pull request', async () => {
  const { host, connection, work, runId, openPull, codeHost } = await startWithRun()
  openPull()
  codeHost.pulls.set(manualPullUrl('owner/name', 8), 'open')
  await connection.send(work.complete({ prUrl: URL, result: { prUrl: URL, artifacts: [] } }))
  await host.succeeded(host.hostApi.followUpRun(runId))
  await host.advance(5)
  const followUp = new Work(connection.lastReceived('dispatch'))
  await connection.send(followUp.accept())
  await connection.send(followUp.complete({ prUrl: manualPullUrl('owner/name', 8) }))
  expect(host.run(runId)).toMatchObject({ status: 'completed', prUrl: URL, pull: { number: 7 } })
  expect(await linesOf(host, runId)).toContainEqual(expect.stringContaining('pull/8 was not kept'))
})

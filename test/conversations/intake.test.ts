/** How tickets come in: when the tracker is polled, and what a failing tracker changes. */
import { describe, expect, test } from '@jest/globals'
import { no } from '../../core/result.ts'
import {
  configWith,
  enroll,
  HostConversation,
  ScriptedTracker,
  startHost,
  ticket,
  trackerConnectionOf,
} from './host-conversation.ts'

async function pollsDuring(host: HostConversation, seconds: number): Promise<number> {
  const before = host.tracker.polls
  await host.advance(seconds)
  return host.tracker.polls - before
}

test('the tracker is polled at the start, and then every tracker.pollSeconds', async () => {
  const host = await startHost()
  expect(host.tracker.polls).toBe(1)
  expect(await pollsDuring(host, 300)).toBe(10)
})

test('tracker.pollSeconds is configured', async () => {
  const host = await startHost(configWith({ tracker: { driver: 'local', path: '/nowhere', pollSeconds: 5 } }))
  expect(await pollsDuring(host, 60)).toBe(12)
})

test('a change that the tracker announces is polled at once', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.hostApi.tickets()).toHaveLength(1)
})

test('polls do not overlap; a change during one causes another', async () => {
  const host = await startHost()
  const pollsBefore = host.tracker.polls
  for (let times = 0; times < 10; times++) host.tracker.announceChange()
  await host.settle()
  expect(host.tracker.polls - pollsBefore).toBe(2)
})

test('`auth-error`: the stored credential is dead, polling paused until reconnect', async () => {
  const host = await startHost()
  host.tracker.answer = no('unauthorized', 'the key is dead')
  await host.advance(30)
  expect(trackerConnectionOf(host)).toEqual({ state: 'auth-error', error: 'the key is dead' })
  expect(await pollsDuring(host, 600)).toBe(0)
  host.tracker.answer = undefined
  const elsewhere = { tracker: { apiUrl: 'https://example.com' } }
  await host.succeeded(host.hostApi.changeSettings(elsewhere, ['tracker.apiUrl']))
  await host.settle()
  expect(trackerConnectionOf(host)).toEqual({ state: 'connected' })
  expect(await pollsDuring(host, 60)).toBe(2)
})

test('the tickets of an unreachable tracker stay, and it is polled again', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }), ticket('ENG-2'))
  await host.settle()
  host.tracker.answer = no('unavailable', 'no route to it')
  await host.advance(60)
  expect(trackerConnectionOf(host)).toEqual({ state: 'connected', error: 'no route to it' })
  expect(host.hostApi.tickets()).toHaveLength(1)
  host.tracker.answer = undefined
  await host.advance(30)
  expect(trackerConnectionOf(host)).toEqual({ state: 'connected' })
  expect(host.allRuns()).toHaveLength(1)
})

describe('another tracker', () => {
  /** A host whose tracker is one of two folders, as `tracker.path` says. */
  async function startWithFolders() {
    const [first, second] = [new ScriptedTracker(), new ScriptedTracker()]
    const host = new HostConversation(configWith({ tracker: { driver: 'local', path: '/first' } }))
    host.overrides = { tracker: ({ tracker: { path } }) => (path === '/second' ? second : first) }
    await host.start()
    const change = (tracker: object) =>
      host.succeeded(
        host.hostApi.changeSettings({ tracker }, Object.hasOwn(tracker, 'path') ? ['tracker.path'] : []),
      )
    return { host, first, second, change }
  }

  test('tickets of the earlier one are not judged by the rules of the new one', async () => {
    const { host, first, change } = await startWithFolders()
    first.put(ticket('OLD-1', { state: 'Backlog' }))
    await host.settle()
    await change({ path: '/second', eligible: { states: ['Backlog'] } })
    await host.advance(60)
    expect([host.hostApi.tickets(), host.allRuns()]).toEqual([[], []])
    await change({ path: '/first' })
    await host.settle()
    expect(host.runOf('OLD-1').status).toBe('queued')
  })

  test('tickets of the earlier one are gone at once, also while the new one cannot be listed; their runs stay', async () => {
    const { host, first, second, change } = await startWithFolders()
    first.put(ticket('OLD-1'))
    await host.settle()
    second.answer = no('failed', 'there is no such folder')
    const pushes = host.recordPushes()
    await change({ path: '/second' })
    await host.advance(60)
    expect(host.hostApi.tickets()).toEqual([])
    expect(pushes).toContainEqual({ type: 'tickets', tickets: [] })
    expect(trackerConnectionOf(host)).toEqual({ state: 'connected', error: 'there is no such folder' })
    expect(host.runOf('OLD-1').status).toBe('queued')
    await change({ path: '/first' })
    await host.settle()
    expect(host.hostApi.tickets()).toHaveLength(1)
    expect(host.allRuns()).toHaveLength(1)
  })

  test('another interval keeps the tickets; rules that come with it are applied once they are listed', async () => {
    const { host, first, change } = await startWithFolders()
    first.put(ticket('OLD-1'), ticket('OLD-2', { state: 'Backlog' }))
    await host.settle()
    first.answer = no('unavailable', 'the disk is away')
    await change({ pollSeconds: 60 })
    expect(host.hostApi.tickets().map(({ id }) => id)).toEqual(['OLD-1'])
    await change({ eligible: { states: ['Todo', 'Backlog'] } })
    await host.advance(120)
    expect(host.hostApi.tickets().map(({ id }) => id)).toEqual(['OLD-1', 'OLD-2'])
    expect(host.allRuns()).toHaveLength(1)
    first.answer = undefined
    await host.advance(60)
    expect(host.runOf('OLD-2').status).toBe('queued')
  })
})

test('a ticket that is missing from a listing gets no second run when it is back', async () => {
  const host = await startHost()
  const missing = ticket('ENG-1')
  host.tracker.put(missing)
  await host.settle()
  await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-1').id))
  host.tracker.tickets.delete('ENG-1')
  await host.advance(30)
  expect(host.hostApi.tickets()).toEqual([])
  host.tracker.put(missing)
  await host.advance(30)
  expect(host.allRuns()).toHaveLength(1)
})

test('a closed ticket is not eligible', async () => {
  const host = await startHost()
  host.tracker.close(ticket('ENG-1'))
  await host.settle()
  expect([host.hostApi.tickets(), host.allRuns()]).toEqual([[], []])
})

test('labels, projects and assignees narrow what is eligible', async () => {
  const eligible = { states: ['Todo'], labels: ['agent'], projects: ['Web'], assignees: ['ana'] }
  const host = await startHost(configWith({ tracker: { driver: 'local', path: '/nowhere', eligible } }))
  const fits = { labels: ['x', 'Agent'], project: 'web', assignee: 'Ana' }
  host.tracker.put(
    ticket('fits', fits),
    ticket('label', { ...fits, labels: [] }),
    ticket('project', { ...fits, project: 'ops' }),
    ticket('assignee', { labels: ['agent'], project: 'web' }),
  )
  await host.settle()
  expect(host.allRuns().map((run) => run.ticket.identifier)).toEqual(['fits'])
})

test('a ticket whose id is too long to be stored is left out, and the others are not', async () => {
  const host = await startHost()
  host.tracker.put(ticket('課'.repeat(250)))
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.hostApi.tickets().map(({ id }) => id)).toEqual(['ENG-1'])
})

test('a tracker that never answers is polled again', async () => {
  const host = await startHost()
  const { listTickets } = host.tracker
  host.tracker.listTickets = () => new Promise(() => {})
  host.tracker.put(ticket('ENG-1'))
  await host.advance(121)
  expect(host.hostApi.hello().linearStatus.error).toBe('the tracker did not answer within 120 seconds')
  host.tracker.listTickets = listTickets
  await host.advance(60)
  expect(host.hostApi.tickets().map(({ id }) => id)).toEqual(['ENG-1'])
})

test('the tracker’s status says when it was and will be polled, and what the last poll found', async () => {
  const host = await startHost()
  const startedAt = host.clock.now() - 1_000
  const at = (seconds: number) => new Date(startedAt + seconds * 1_000).toISOString()
  expect(host.hostApi.trackerStatus()).toEqual({
    state: 'connected',
    lastPollAt: at(0),
    nextPollAt: at(30),
    seen: 0,
    eligible: 0,
  })
  expect(host.hostApi.hello().linearStatus).toEqual(host.hostApi.trackerStatus())
  await host.advance(9)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2', { state: 'Backlog' }))
  await host.settle()
  const found = { lastPollAt: at(10), seen: 2, eligible: 1 }
  expect(host.hostApi.trackerStatus()).toEqual({ state: 'connected', ...found, nextPollAt: at(40) })
  host.tracker.answer = no('unavailable', 'no route to it')
  await host.advance(45)
  expect(host.hostApi.trackerStatus()).toEqual({
    state: 'connected',
    error: 'no route to it',
    ...found,
    nextPollAt: at(70),
  })
  host.tracker.answer = no('unauthorized', 'the key is dead')
  await host.advance(20)
  expect(host.hostApi.trackerStatus()).toEqual({ state: 'auth-error', error: 'the key is dead', ...found })
  host.overrides = { tracker: () => undefined }
  await host.restart()
  expect(host.hostApi.trackerStatus()).toEqual({ state: 'disconnected' })
})

test('the label and the project of a mapping choose the repository of a run', async () => {
  const repos = {
    web: { remote: 'owner/web', label: 'web' },
    api: { remote: 'owner/api', trackerProject: 'Backend' },
    rest: { remote: 'owner/rest' },
  }
  const host = await startHost(configWith({ repos }))
  const { connection } = await enroll(host, 'worker', 3)
  host.tracker.put(
    ticket('ENG-1', { labels: ['web'] }),
    ticket('ENG-2', { project: 'Backend' }),
    ticket('ENG-3'),
  )
  await host.settle()
  const chosen = connection.received.flatMap((frame) =>
    frame.type === 'dispatch' ? [`${frame.job.run.ticket.identifier} ${frame.job.repo?.key}`] : [],
  )
  expect(chosen.toSorted()).toEqual(['ENG-1 web', 'ENG-2 api', 'ENG-3 rest'])
})

test('the store hears of each new run once, so that it looks for nothing about it', async () => {
  const host = await startHost()
  const begun: string[] = []
  host.store.events.begin = (runId) => void begun.push(runId)
  host.tracker.put(ticket('ENG-1'), ticket('ENG-2'))
  await host.settle()
  expect(begun.sort()).toEqual([host.runOf('ENG-1').id, host.runOf('ENG-2').id].sort())
  await host.restart()
  await host.advance(60)
  expect(begun).toHaveLength(2)
})

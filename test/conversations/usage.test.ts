/** Rule 10 of the worker channel: a minimized copy of each agent session's usage, archived once and never twice. */
import { expect, test } from '@jest/globals'
import { USAGE_NOT_KEPT, usageHash } from '../../core/run/usage.ts'
import { packUsage, type UsageEntry } from '../../protocol/usage.ts'
import { acceptRun, enroll, type HostConversation, reconnect, startHost } from './host-conversation.ts'
import { resumeAndRelease, retainRun, withAgent } from './terminal-conversation.ts'

const entry = (id: string, more: Partial<UsageEntry> = {}): UsageEntry => ({
  id,
  at: '2026-01-01T00:00:00.000Z',
  model: 'm',
  inputTokens: 10,
  outputTokens: 2,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  ...more,
})

const snapshot = (entries: readonly UsageEntry[], more: object = {}) => ({
  projectKey: '-home-me-repo',
  sessionId: 'session-1',
  entries,
  ...more,
})

async function archivedEntryIds(host: HostConversation, subagentId?: string): Promise<string[] | undefined> {
  const key = {
    projectKey: '-home-me-repo',
    sessionId: 'session-1',
    ...(subagentId === undefined ? {} : { subagentId }),
  }
  const text = await host.store.usage.read(key)
  if (text === undefined) return undefined
  const { entries } = JSON.parse(text) as { entries: UsageEntry[] }
  return entries.map(({ id }) => id)
}

test('a snapshot is archived under its project and session', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a', { costUsd: 0.5 })])))
  const text = await host.store.usage.read({ projectKey: '-home-me-repo', sessionId: 'session-1' })
  expect(JSON.parse(text ?? '')).toEqual({
    projectKey: '-home-me-repo',
    sessionId: 'session-1',
    entries: [entry('a', { costUsd: 0.5 })],
  })
})

test('a snapshot without subagentId replaces the session’s earlier main snapshot', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a')])), work.usage(snapshot([entry('a'), entry('b')])))
  expect(await archivedEntryIds(host)).toEqual(['a', 'b'])
})

test('one with subagentId replaces that subagent’s earlier snapshot, and nothing else', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(
    work.usage(snapshot([entry('main')])),
    work.usage(snapshot([entry('one')], { subagentId: 'sub-1' })),
    work.usage(snapshot([entry('two')], { subagentId: 'sub-2' })),
    work.usage(snapshot([entry('one'), entry('one more')], { subagentId: 'sub-1' })),
  )
  expect(await archivedEntryIds(host)).toEqual(['main'])
  expect(await archivedEntryIds(host, 'sub-1')).toEqual(['one', 'one more'])
  expect(await archivedEntryIds(host, 'sub-2')).toEqual(['two'])
  expect(await host.store.usage.list('-home-me-repo')).toHaveLength(3)
})

test('replays never double count', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a')])))
  const again = await reconnect(host, worker, work)
  await again.send(work.at(1).usage(snapshot([entry('a')])), work.usage(snapshot([entry('a')])))
  await again.sendHeartbeat(work)
  expect(again.acknowledged(work)).toBe(2)
  expect(await archivedEntryIds(host)).toEqual(['a'])
})

test('an entry that a snapshot names twice counts once', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a'), entry('a')])))
  expect(await archivedEntryIds(host)).toEqual(['a'])
})

test.each([
  ['project key', { projectKey: '../../etc' }],
  ['project key', { projectKey: 'a/b' }],
  ['project key', { projectKey: '.hidden' }],
  ['project key', { projectKey: '' }],
  ['session id', { sessionId: '..' }],
  ['session id', { sessionId: 'a.json' }],
  ['session id', { sessionId: 'a\u0000b' }],
  ['subagentId', { subagentId: '../session-2' }],
  ['subagentId', { subagentId: 'x'.repeat(201) }],
])('the host validates a path-safe %s: %j', async (_, wrong) => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a')], wrong)))
  expect(connection.lastReceived('rejected').code).toBe('malformed')
  expect(await archivedEntryIds(host)).toBeUndefined()
  expect(host.run(runId).status).toBe('preparing')
})

test('a session id that some file systems treat like another name is refused, and the run’s log names it', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a')], { sessionId: 'a.JSON' })))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(1)
  expect((await host.events(runId)).at(-1)).toMatch(/^system .*: \/snapshot\/sessionId: /)
})

test('a snapshot with a correct content hash is archived', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([entry('a')], { sha256: usageHash([entry('a')]) })))
  expect(await archivedEntryIds(host)).toEqual(['a'])
})

test('a snapshot whose content hash is wrong is not archived; the run’s log names it, and the run continues', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(
    work.usage(snapshot([entry('a')])),
    work.usage(snapshot([entry('b')], { sha256: '0'.repeat(64) })),
    work.complete(),
  )
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect(await archivedEntryIds(host)).toEqual(['a'])
  expect((await host.events(runId)).slice(-2)).toEqual([
    expect.stringMatching(/^system .*: \/snapshot\/sha256: /),
    'status completed',
  ])
})

test('a snapshot of more than 4 MiB, however small it is packed, is malformed', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const model = 'm'.repeat(500)
  const entries = Array.from({ length: 8500 }, (_, at) => entry(`e${at}`, { model }))
  await connection.send(
    work.usage({ projectKey: '-home-me-repo', sessionId: 'session-1', packed: packUsage(entries) }),
  )
  expect(connection.lastReceived('rejected').reason).toContain('/snapshot/packed')
  expect(await archivedEntryIds(host)).toBeUndefined()
})

test('a long session is sent compact and archived whole', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const entries = Array.from({ length: 5000 }, (_, at) => entry(`e${at}`))
  const sha256 = usageHash(entries)
  await connection.send(
    work.usage({ projectKey: '-home-me-repo', sessionId: 'session-1', packed: packUsage(entries), sha256 }),
  )
  expect(await archivedEntryIds(host)).toHaveLength(5000)
})

test('never prompt or response content: any other field of an entry is not archived', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.usage(snapshot([{ ...entry('a'), prompt: 'secret plans' } as UsageEntry])))
  expect(await archivedEntryIds(host)).toEqual(['a'])
  const text = await host.store.usage.read({ projectKey: '-home-me-repo', sessionId: 'session-1' })
  expect(text).not.toMatch(/prompt|secret plans/)
})

test('a snapshot sequenced below a run-complete is committed before that completion is acknowledged', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const replace = host.store.usage.replace.bind(host.store.usage)
  let go = () => {}
  host.store.usage.replace = async (key, text) => {
    await new Promise<void>((resolve) => {
      go = resolve
    })
    await replace(key, text)
  }
  await connection.send(work.usage(snapshot([entry('a')])), work.complete())
  await connection.sendHeartbeat(work)
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  expect(connection.acknowledged(work)).toBe(0)
  expect(host.run(runId).status).toBe('preparing')
  go()
  await host.settle()
  expect(await archivedEntryIds(host)).toEqual(['a'])
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
})

test('a snapshot that cannot be put on disk is not acknowledged, and is requested again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const replace = host.store.usage.replace.bind(host.store.usage)
  host.store.usage.replace = () => Promise.reject(new Error('no room left'))
  await connection.send(work.usage(snapshot([entry('a')])), work.event(), work.complete())
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(0)
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  host.store.usage.replace = replace
  await connection.send(work.at(1).usage(snapshot([entry('a')])), work.event(), work.complete())
  expect(await archivedEntryIds(host)).toEqual(['a'])
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
})

test('a re-export at the end of an attach session is sent without a lease', async () => {
  const host = await startHost(withAgent)
  const { connection, runId } = await retainRun(host, {}, (work) => [work.usage(snapshot([entry('a')]))])
  await resumeAndRelease(host, connection, runId)
  await connection.send({ type: 'run-usage-snapshot', snapshot: snapshot([entry('a'), entry('b')]) })
  expect(await archivedEntryIds(host)).toEqual(['a', 'b'])
})

test('a snapshot without a lease is best effort: what is wrong with it is logged, and the connection stays open', async () => {
  const host = await startHost(withAgent)
  const { connection, runId } = await retainRun(host)
  await resumeAndRelease(host, connection, runId)
  await connection.send({
    type: 'run-usage-snapshot',
    snapshot: snapshot([entry('a')], { sha256: '0'.repeat(64) }),
  })
  expect(connection.closed).toBeUndefined()
  expect(await archivedEntryIds(host)).toBeUndefined()
  expect(host.log.lines.map(({ message }) => message)).toContain(USAGE_NOT_KEPT)
})

test.each([['leaseId'], ['seq']])(
  'a snapshot with only one of leaseId and seq is malformed: without %s',
  async (missing) => {
    const host = await startHost()
    const { connection, work } = await acceptRun(host)
    const { [missing]: _, ...frame } = work.usage(snapshot([entry('a')])) as Record<string, unknown>
    await connection.send(frame)
    expect(connection.lastReceived('rejected').code).toBe('malformed')
  },
)

test('a snapshot of a lease that is not this worker’s is not archived', async () => {
  const host = await startHost()
  const { work } = await acceptRun(host)
  const thief = await enroll(host, 'thief')
  await thief.connection.send(work.usage(snapshot([entry('a')])))
  expect(thief.connection.hasReceived('lease-lost')).toBe(true)
  expect(await archivedEntryIds(host)).toBeUndefined()
})

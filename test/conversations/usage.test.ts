/** Rule 10 of the worker channel: a minimized copy of what each agent session used, archived once and never twice. */
import { expect, test } from '@jest/globals'
import { usageHash } from '../../core/run/usage.ts'
import { packUsage, type UsageEntry } from '../../protocol/usage.ts'
import { back, busy, enroll, type Yarn, yarn } from './host-conversation.ts'
import { retained, visited, withAgent } from './terminal-conversation.ts'

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

async function archived(y: Yarn, subagentId?: string): Promise<string[] | undefined> {
  const key = {
    projectKey: '-home-me-repo',
    sessionId: 'session-1',
    ...(subagentId === undefined ? {} : { subagentId }),
  }
  const text = await y.store.usage.read(key)
  if (text === undefined) return undefined
  const { entries } = JSON.parse(text) as { entries: UsageEntry[] }
  return entries.map(({ id }) => id)
}

test('a snapshot is archived under its project and session', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a', { costUsd: 0.5 })])))
  const text = await y.store.usage.read({ projectKey: '-home-me-repo', sessionId: 'session-1' })
  expect(JSON.parse(text ?? '')).toEqual({
    projectKey: '-home-me-repo',
    sessionId: 'session-1',
    entries: [entry('a', { costUsd: 0.5 })],
  })
})

test('a snapshot without subagentId replaces the session’s earlier main snapshot', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a')])), work.usage(snapshot([entry('a'), entry('b')])))
  expect(await archived(y)).toEqual(['a', 'b'])
})

test('one with subagentId replaces that subagent’s earlier snapshot, and nothing else', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(
    work.usage(snapshot([entry('main')])),
    work.usage(snapshot([entry('one')], { subagentId: 'sub-1' })),
    work.usage(snapshot([entry('two')], { subagentId: 'sub-2' })),
    work.usage(snapshot([entry('one'), entry('one more')], { subagentId: 'sub-1' })),
  )
  expect(await archived(y)).toEqual(['main'])
  expect(await archived(y, 'sub-1')).toEqual(['one', 'one more'])
  expect(await archived(y, 'sub-2')).toEqual(['two'])
  expect(await y.store.usage.list('-home-me-repo')).toHaveLength(3)
})

test('replays never double count', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a')])))
  const again = await back(y, worker, work)
  await again.say(work.at(1).usage(snapshot([entry('a')])), work.usage(snapshot([entry('a')])))
  await again.beat(work)
  expect(again.acknowledged(work)).toBe(2)
  expect(await archived(y)).toEqual(['a'])
})

test('an entry that a snapshot names twice counts once', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a'), entry('a')])))
  expect(await archived(y)).toEqual(['a'])
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
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a')], wrong)))
  expect(wire.last('rejected').code).toBe('malformed')
  expect(await archived(y)).toBeUndefined()
  expect(y.run(runId).status).toBe('preparing')
})

test('a name that only some file systems take for another is refused, and the refusal is told in the run', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a')], { sessionId: 'a.JSON' })))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(1)
  expect((await y.events(runId)).at(-1)).toBe(
    'system a usage snapshot was not kept: /snapshot/sessionId: is not safe as the name of a file',
  )
})

test('a content hash that is right is no hindrance', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([entry('a')], { sha256: usageHash([entry('a')]) })))
  expect(await archived(y)).toEqual(['a'])
})

test('a snapshot whose content hash is wrong is not archived; the run says so, and goes on', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(
    work.usage(snapshot([entry('a')])),
    work.usage(snapshot([entry('b')], { sha256: '0'.repeat(64) })),
    work.complete(),
  )
  expect(wire.has('run-complete-ack')).toBe(true)
  expect(await archived(y)).toEqual(['a'])
  expect((await y.events(runId)).slice(-2)).toEqual([
    'system a usage snapshot was not kept: /snapshot/sha256: is not the SHA-256 of the compact JSON of the entries',
    'status completed',
  ])
})

test('a snapshot of more than 4 MiB, however small it is packed, is malformed', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const model = 'm'.repeat(500)
  const entries = Array.from({ length: 8500 }, (_, at) => entry(`e${at}`, { model }))
  await wire.say(
    work.usage({ projectKey: '-home-me-repo', sessionId: 'session-1', packed: packUsage(entries) }),
  )
  expect(wire.last('rejected').reason).toContain('/snapshot/packed')
  expect(await archived(y)).toBeUndefined()
})

test('a long session is sent compact and archived whole', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const entries = Array.from({ length: 5000 }, (_, at) => entry(`e${at}`))
  const sha256 = usageHash(entries)
  await wire.say(
    work.usage({ projectKey: '-home-me-repo', sessionId: 'session-1', packed: packUsage(entries), sha256 }),
  )
  expect(await archived(y)).toHaveLength(5000)
})

test('never prompt or response content: an entry with any other field is malformed', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.usage(snapshot([{ ...entry('a'), prompt: 'secret plans' } as UsageEntry])))
  expect(wire.last('rejected').code).toBe('malformed')
  expect(await archived(y)).toBeUndefined()
})

test('a snapshot sequenced below a run-complete has landed before that completion is acknowledged', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const replace = y.store.usage.replace.bind(y.store.usage)
  let go = () => {}
  y.store.usage.replace = async (key, text) => {
    await new Promise<void>((resolve) => {
      go = resolve
    })
    await replace(key, text)
  }
  await wire.say(work.usage(snapshot([entry('a')])), work.complete())
  await wire.beat(work)
  expect(wire.has('run-complete-ack')).toBe(false)
  expect(wire.acknowledged(work)).toBe(0)
  expect(y.run(runId).status).toBe('preparing')
  go()
  await y.settle()
  expect(await archived(y)).toEqual(['a'])
  expect(wire.has('run-complete-ack')).toBe(true)
})

test('a snapshot that cannot be put on disk is not acknowledged, and asked for again', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const replace = y.store.usage.replace.bind(y.store.usage)
  y.store.usage.replace = () => Promise.reject(new Error('no room left'))
  await wire.say(work.usage(snapshot([entry('a')])), work.event(), work.complete())
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(0)
  expect(wire.has('run-complete-ack')).toBe(false)
  y.store.usage.replace = replace
  await wire.say(work.at(1).usage(snapshot([entry('a')])), work.event(), work.complete())
  expect(await archived(y)).toEqual(['a'])
  expect(wire.has('run-complete-ack')).toBe(true)
})

test('a re-export at the end of an attach session is sent without a lease', async () => {
  const y = await yarn(withAgent)
  const { wire, runId } = await retained(y, {}, (work) => [work.usage(snapshot([entry('a')]))])
  await visited(y, wire, runId)
  await wire.say({ type: 'run-usage-snapshot', snapshot: snapshot([entry('a'), entry('b')]) })
  expect(await archived(y)).toEqual(['a', 'b'])
})

test('a snapshot without a lease is best effort: what is wrong with it is logged, and nobody is thrown out', async () => {
  const y = await yarn(withAgent)
  const { wire, runId } = await retained(y)
  await visited(y, wire, runId)
  await wire.say({ type: 'run-usage-snapshot', snapshot: snapshot([entry('a')], { sha256: '0'.repeat(64) }) })
  expect(wire.closed).toBeUndefined()
  expect(await archived(y)).toBeUndefined()
  expect(y.log.lines.map(({ message }) => message)).toContain('a usage snapshot was not kept')
})

test.each([['leaseId'], ['seq']])(
  'a snapshot with only one of leaseId and seq is malformed: without %s',
  async (missing) => {
    const y = await yarn()
    const { wire, work } = await busy(y)
    const { [missing]: _, ...frame } = work.usage(snapshot([entry('a')])) as Record<string, unknown>
    await wire.say(frame)
    expect(wire.last('rejected').code).toBe('malformed')
  },
)

test('a snapshot of a lease that is not this worker’s is not archived', async () => {
  const y = await yarn()
  const { work } = await busy(y)
  const thief = await enroll(y, 'thief')
  await thief.wire.say(work.usage(snapshot([entry('a')])))
  expect(thief.wire.has('lease-lost')).toBe(true)
  expect(await archived(y)).toBeUndefined()
})

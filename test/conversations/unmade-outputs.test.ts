/** What runs leave behind: memories of their own repository, and artifacts under names that lead nowhere else. */
import { expect, test } from '@jest/globals'
import { busy, configWith, enroll, ticket, type Yarn, yarn } from './host-conversation.ts'

const texts = (y: Yarn, repo = 'owner/name') =>
  (y.desk.memories().repos[repo] ?? []).map(({ text, hits }) => `${text} ×${hits}`)

async function artifact(y: Yarn, runId: string, name: string): Promise<string> {
  const found = await y.desk.artifact(runId, name)
  if (!found.ok) return found.refusal.kind
  const chunks: Uint8Array[] = []
  for await (const chunk of found.value.read()) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a run’s memories are kept for its own repository', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'tests run with make', '  builds   need Java 21 '))
  expect(y.desk.memories().repos['owner/name']).toContainEqual({
    id: expect.any(String),
    text: 'builds need Java 21',
    createdAt: '2026-01-01T00:00:01.000Z',
    updatedAt: '2026-01-01T00:00:01.000Z',
    hits: 1,
    ident: 'ENG-1',
  })
})

test('memories of another repository are not kept, and the run says so', async () => {
  const y = await yarn(
    configWith({ repos: { main: { remote: 'owner/name' }, web: { remote: 'owner/web', label: 'web' } } }),
  )
  const { wire, work, runId } = await busy(y)
  await wire.say(work.memories('owner/web', 'poison'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(1)
  expect(y.desk.memories()).toEqual({ repos: {} })
  expect((await y.events(runId)).at(-1)).toBe(
    'system memories for owner/web were not kept: the run is about another repository',
  )
})

test('a fact seen again raises hits and updatedAt; white space and case do not tell facts apart', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'Tests run with make'))
  await y.pass(10)
  await wire.say(work.memories('owner/name', ' tests  run with MAKE '))
  expect(y.desk.memories().repos['owner/name']).toMatchObject([
    { text: 'Tests run with make', hits: 2, updatedAt: '2026-01-01T00:00:11.000Z' },
  ])
})

test('memories that are sent twice under one number count once', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'a'), work.at(1).memories('owner/name', 'a'))
  expect(texts(y)).toEqual(['a ×1'])
})

test('a dispatch carries what earlier runs learnt about its repository', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'tests run with make'), work.complete())
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  expect(wire.last('dispatch').job.agent.memories).toEqual(['tests run with make'])
})

test('forget and clear: unknown when there is nothing to drop', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'a', 'b', 'c'))
  const id = y.desk.memories().repos['owner/name']?.find(({ text }) => text === 'b')?.id ?? ''
  await y.done(y.desk.forgetMemory('owner/name', id))
  expect(texts(y).sort()).toEqual(['a ×1', 'c ×1'])
  expect(await y.ask(y.desk.forgetMemory('owner/name', id))).toMatchObject({ refusal: { kind: 'unknown' } })
  expect(await y.done(y.desk.clearMemories('owner/name'))).toEqual({ repos: {} })
  expect(await y.ask(y.desk.clearMemories('owner/name'))).toMatchObject({ refusal: { kind: 'unknown' } })
  expect(await y.ask(y.desk.clearMemories('owner/none'))).toMatchObject({ refusal: { kind: 'unknown' } })
})

test('a deletion that a disk just filled does not take is answered, and made once there is room', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.memories('owner/name', 'a'))
  const clearing = y.desk.clearMemories('owner/name')
  y.fill()
  await y.pass(10)
  expect(await clearing).toMatchObject({
    refusal: { kind: 'failed', message: expect.stringMatching(/no room left on the disk/) },
  })
  expect(texts(y)).toEqual(['a ×1'])
  await y.drain()
  expect(texts(y)).toEqual([])
})

test('memories are on disk before they are told, and survive a restart', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.fill()
  await wire.say(work.memories('owner/name', 'a'))
  expect(texts(y)).toEqual([])
  await y.drain()
  await y.crash()
  expect(texts(y)).toEqual(['a ×1'])
})

test('the parts of an artifact become one file when the last of them is on disk', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.artifact('report.txt', 'one, ', 0, false))
  expect(await artifact(y, runId, 'report.txt')).toBe('unknown')
  await wire.say(work.artifact('report.txt', 'two', 1, true))
  expect(await artifact(y, runId, 'report.txt')).toBe('one, two')
})

test('parts that are sent again do not lengthen an artifact', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(
    work.artifact('report.txt', 'one, ', 0, false),
    work.at(1).artifact('report.txt', 'one, ', 0, false),
    work.artifact('report.txt', 'two', 1, true),
    work.at(2).artifact('report.txt', 'two', 1, true),
  )
  expect(await artifact(y, runId, 'report.txt')).toBe('one, two')
})

test.each([['..'], ['.'], ['../run-1/events.jsonl'], ['a/b'], ['a\\b'], ['a\nb'], ['x'.repeat(256)], ['']])(
  'an artifact’s name that leads elsewhere is malformed: %j',
  async (name) => {
    const y = await yarn()
    const { wire, work, runId } = await busy(y)
    await wire.say(work.artifact(name, 'x'))
    expect(wire.last('rejected').code).toBe('malformed')
    expect(await y.store.artifacts.names(runId)).toEqual([])
  },
)

test('an artifact the store refuses does not hold up the run, which says so', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.artifact('report.txt', 'late', 3, true), work.complete())
  expect(wire.has('run-complete-ack')).toBe(true)
  expect((await y.events(runId)).slice(-2)).toEqual([
    'system the artifact report.txt was not kept: part 3 of report.txt came before part 0',
    'status completed',
  ])
})

test('an artifact that cannot be written is not acknowledged, and asked for again', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const write = y.store.artifacts.write.bind(y.store.artifacts)
  y.store.artifacts.write = () => Promise.reject(new Error('no room left'))
  await wire.say(work.artifact('a.txt', 'text'), work.complete())
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(0)
  y.store.artifacts.write = write
  await wire.say(work.at(1).artifact('a.txt', 'text'), work.complete())
  expect(wire.has('run-complete-ack')).toBe(true)
  expect(await artifact(y, runId, 'a.txt')).toBe('text')
})

test('a name that escapes the artifact directory is invalid, another that is not there is unknown', async () => {
  const y = await yarn()
  const { runId } = await busy(y)
  expect(await artifact(y, runId, '../config.json')).toBe('invalid')
  expect(await artifact(y, runId, '..')).toBe('invalid')
  expect(await artifact(y, runId, 'none.txt')).toBe('unknown')
  expect(await artifact(y, 'run-unknown', 'none.txt')).toBe('unknown')
})

test('an artifact’s event refers to it', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const event = {
    at: '2026-01-01T00:00:00.000Z',
    type: 'artifact',
    name: 'a.txt',
    size: 4,
    contentType: 'text/plain',
  }
  await wire.say(work.artifact('a.txt', 'text'), { ...work.event(), event })
  const events = await y.done(y.desk.runEvents(runId, {}))
  expect(events.at(-1)).toEqual({ runId, index: 2, ...event })
})

test('a worker cannot speak for a run that is not its own', async () => {
  const y = await yarn()
  const { work } = await busy(y)
  const other = await enroll(y, 'other')
  await other.wire.say(work.memories('owner/name', 'poison'), work.artifact('a.txt', 'x'))
  expect(y.desk.memories()).toEqual({ repos: {} })
  expect(await y.store.artifacts.names(work.runId)).toEqual([])
})

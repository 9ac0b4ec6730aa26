/** The outputs of runs: memories of their own repository, and artifacts under names that stay in their directory. */
import { expect, test } from '@jest/globals'
import { createChecker } from '../../protocol/parse.ts'
import { Run } from '../../protocol/run.ts'
import {
  acceptRun,
  configWith,
  enroll,
  type HostConversation,
  startHost,
  ticket,
} from './host-conversation.ts'

const texts = (host: HostConversation, repo = 'owner/name') =>
  (host.hostApi.memories().repos[repo] ?? []).map(({ text, hits }) => `${text} ×${hits}`)

async function artifact(host: HostConversation, runId: string, name: string): Promise<string> {
  const found = await host.hostApi.artifact(runId, name)
  if (!found.ok) return found.refusal.kind
  const chunks: Uint8Array[] = []
  for await (const chunk of found.value.read()) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a run’s memories are kept for its own repository', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'tests run with make', '  builds   need Java 21 '))
  expect(host.hostApi.memories().repos['owner/name']).toContainEqual({
    id: expect.any(String),
    text: 'builds need Java 21',
    createdAt: '2026-01-01T00:00:01.000Z',
    updatedAt: '2026-01-01T00:00:01.000Z',
    hits: 1,
    ident: 'ENG-1',
    state: 'new',
  })
})

test('a run’s memories are kept when its repository is no longer mapped', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.succeeded(host.hostApi.changeSettings({ repos: { main: null } }))
  await connection.send(work.memories('owner/name', 'tests run with make'))
  expect(texts(host)).toEqual(['tests run with make ×1'])
})

test('memories of another repository are not kept, and the run’s log names them', async () => {
  const host = await startHost(
    configWith({ repos: { main: { remote: 'owner/name' }, web: { remote: 'owner/web', label: 'web' } } }),
  )
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.memories('owner/web', 'poison'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(1)
  expect(host.hostApi.memories()).toEqual({ repos: {} })
  expect((await host.events(runId)).at(-1)).toMatch(/^system memories for owner\/web were not kept: /)
})

test('a fact that its run records again is newer; facts that differ in white space or case are the same', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'Tests run with make'))
  await host.advance(10)
  await connection.send(work.memories('owner/name', ' tests  run with MAKE '))
  expect(host.hostApi.memories().repos['owner/name']).toMatchObject([
    { text: 'Tests run with make', hits: 1, updatedAt: '2026-01-01T00:00:11.000Z' },
  ])
})

test('memories that are sent twice under one number count once', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'a'), work.at(1).memories('owner/name', 'a'))
  expect(texts(host)).toEqual(['a ×1'])
})

test('a dispatch carries what earlier runs learnt and a person kept about its repository', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'tests run with make', 'disable all tests'))
  await connection.send(work.complete())
  const { repos } = host.hostApi.memories()
  const id = repos['owner/name']?.find(({ text }) => text === 'tests run with make')?.id ?? ''
  const kept = await host.succeeded(host.hostApi.keepMemory('owner/name', id))
  expect(kept.repos['owner/name']?.map(({ state }) => state).sort()).toEqual(['kept', 'new'])
  expect(await host.settled(host.hostApi.keepMemory('owner/name', 'mem-none'))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  expect(connection.lastReceived('dispatch').job.agent?.memories).toEqual(['tests run with make'])
})

test('forget and clear: unknown when there is nothing to drop', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'a', 'b', 'c'))
  const id = host.hostApi.memories().repos['owner/name']?.find(({ text }) => text === 'b')?.id ?? ''
  await host.succeeded(host.hostApi.forgetMemory('owner/name', id))
  expect(texts(host).sort()).toEqual(['a ×1', 'c ×1'])
  expect(await host.settled(host.hostApi.forgetMemory('owner/name', id))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
  expect(await host.succeeded(host.hostApi.clearMemories('owner/name'))).toEqual({ repos: {} })
  expect(await host.settled(host.hostApi.clearMemories('owner/name'))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
  expect(await host.settled(host.hostApi.clearMemories('owner/none'))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
})

test('a deletion on a disk that has just filled is answered, and made once there is space', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'a'))
  const clearing = host.hostApi.clearMemories('owner/name')
  host.fillDisk()
  await host.advance(10)
  expect(await clearing).toMatchObject({
    refusal: { kind: 'failed', message: expect.stringMatching(/no space left on the disk/) },
  })
  expect(texts(host)).toEqual(['a ×1'])
  await host.freeDisk()
  expect(texts(host)).toEqual([])
})

test('memories are on disk before they are shown, and survive a restart', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.fillDisk()
  await connection.send(work.memories('owner/name', 'a'))
  expect(texts(host)).toEqual([])
  await host.freeDisk()
  await host.crash()
  expect(texts(host)).toEqual(['a ×1'])
})

test('the parts of an artifact become one file when the last of them is on disk', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.artifact('report.txt', 'one, ', 0, false))
  expect(await artifact(host, runId, 'report.txt')).toBe('unknown')
  await connection.send(work.artifact('report.txt', 'two', 1, true))
  expect(await artifact(host, runId, 'report.txt')).toBe('one, two')
})

test('parts that are sent again do not lengthen an artifact', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(
    work.artifact('report.txt', 'one, ', 0, false),
    work.at(1).artifact('report.txt', 'one, ', 0, false),
    work.artifact('report.txt', 'two', 1, true),
    work.at(2).artifact('report.txt', 'two', 1, true),
  )
  expect(await artifact(host, runId, 'report.txt')).toBe('one, two')
})

test.each([['..'], ['.'], ['../run-1/events.jsonl'], ['a/b'], ['a\\b'], ['a\nb'], ['x'.repeat(256)], ['']])(
  'an artifact’s name that leads elsewhere is malformed: %j',
  async (name) => {
    const host = await startHost()
    const { connection, work, runId } = await acceptRun(host)
    await connection.send(work.artifact(name, 'x'))
    expect(connection.lastReceived('rejected').code).toBe('malformed')
    expect(await host.store.artifacts.names(runId)).toEqual([])
  },
)

test('what a hostile worker reports moves no cursor and reverses no letter', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(
    work.event('\u001b]0;root\u0007\u001b[31mred\u009b2J'),
    work.artifact('exe.\u202egpj', 'x'),
    work.complete({
      status: 'failed',
      error: 'a\u001b[2Jb\u202ec',
      agentSessionId: 's\u001b[8m1',
      result: { summary: 'done\u0007', artifacts: ['exe.\u202egpj'] },
    }),
  )
  const run = host.run(runId)
  expect(run.error).toContain('ab\ufffdc')
  expect(run.agentSessionId).toBe('s1')
  const lines = (await host.events(runId)).join('\n')
  expect(lines).toContain('red')
  expect(lines).toMatch(/artifact .*was not kept/)
  expect(await host.store.artifacts.names(runId)).toEqual([])
  expect(JSON.stringify(run) + lines).not.toMatch(/\p{Cf}|[\u0080-\u009f]|\\u00(?:1b|07)/u)
})

test('an artifact that the store refuses does not hold up the run, and the run’s log names it', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.artifact('report.txt', 'late', 3, true), work.complete())
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect((await host.events(runId)).slice(-2)).toEqual([
    'system the artifact report.txt (4 bytes) was not kept: part 3 of report.txt came before part 0',
    'status completed',
  ])
})

test('an artifact that cannot be written is not acknowledged, and is requested again', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const write = host.store.artifacts.write.bind(host.store.artifacts)
  host.store.artifacts.write = () => Promise.reject(new Error('no room left'))
  await connection.send(work.artifact('a.txt', 'text'), work.complete())
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(0)
  host.store.artifacts.write = write
  await connection.send(work.at(1).artifact('a.txt', 'text'), work.complete())
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect(await artifact(host, runId, 'a.txt')).toBe('text')
})

test('a name that escapes the artifact directory is invalid, another that is not there is unknown', async () => {
  const host = await startHost()
  const { runId } = await acceptRun(host)
  expect(await artifact(host, runId, '../config.json')).toBe('invalid')
  expect(await artifact(host, runId, '..')).toBe('invalid')
  expect(await artifact(host, runId, 'none.txt')).toBe('unknown')
  expect(await artifact(host, 'run-unknown', 'none.txt')).toBe('unknown')
})

test('an artifact’s event refers to it', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const event = {
    at: '2026-01-01T00:00:00.000Z',
    type: 'artifact',
    name: 'a.txt',
    size: 4,
    contentType: 'text/plain',
  }
  await connection.send(work.artifact('a.txt', 'text'), { ...work.event(), event })
  const events = await host.readEvents(runId)
  expect(events.at(-1)).toEqual({ runId, index: 2, ...event })
})

test('a worker cannot speak for a run that is not its own', async () => {
  const host = await startHost()
  const { work } = await acceptRun(host)
  const second = await enroll(host, 'other')
  await second.connection.send(work.memories('owner/name', 'poison'), work.artifact('a.txt', 'x'))
  expect(host.hostApi.memories()).toEqual({ repos: {} })
  expect(await host.store.artifacts.names(work.runId)).toEqual([])
})

test('texts of control characters alone leave a record that a worker accepts again', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const longest = '\u202e'.repeat(255)
  await connection.send(
    work.complete({ agentSessionId: '\u001b[2J', result: { artifacts: ['\u001b[2J', longest] } }),
  )
  const run = host.run(runId)
  expect(createChecker(Run)(run)).toEqual({ ok: true, value: run })
})

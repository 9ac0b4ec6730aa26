/** The budgets of a run on the host: a worker that does not limit its reports fills neither disk nor memory. */
import { expect, test } from '@jest/globals'
import {
  acceptRun,
  configWith,
  type HostConversation,
  reconnect,
  startHost,
  Work,
} from './host-conversation.ts'

const MIB = 1024 * 1024
const startSmall = () => startHost(configWith({ sandbox: { maxLogMib: 1 } }))
const LINE = 'x'.repeat(100_000)

async function stored(host: HostConversation, runId: string) {
  const found = await host.readEvents(runId)
  expect(found.map(({ index }) => index)).toEqual(found.map((_, i) => i))
  const texts = found.flatMap((event) => (event.type === 'log' ? [event.text.slice(0, 200)] : []))
  return { found, texts, bytes: Buffer.byteLength(found.map((event) => JSON.stringify(event)).join('\n')) }
}

test('what exceeds the budget is left out and named, and the frames are acknowledged all the same', async () => {
  const host = await startSmall()
  const { connection, work, runId } = await acceptRun(host)
  for (let i = 0; i < 40; i++) await connection.send(work.event(`${i} ${LINE}`))
  await connection.send(work.running())
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(41)
  const during = await stored(host, runId)
  expect(during.bytes).toBeLessThan(MIB)
  expect(during.texts.at(-1)).toMatch(/sandbox\.maxLogMib allows: the rest is left out$/)
  await connection.send(work.complete())
  const { found, texts, bytes } = await stored(host, runId)
  expect(bytes).toBeLessThan(MIB)
  expect(texts[0]).toMatch(/^0 x/)
  expect(texts.at(-1)).toMatch(/^3\d{6} bytes of the log are left out here/)
  expect(found.filter(({ type }) => type === 'status').at(-1)).toMatchObject({ to: 'completed' })
  expect(host.run(runId).status).toBe('completed')
})

test('the count of what was left out survives a restart of the host', async () => {
  const host = await startSmall()
  const { worker, connection, work, runId } = await acceptRun(host)
  for (let i = 0; i < 20; i++) await connection.send(work.event(`${i} ${LINE}`))
  await host.settle()
  await host.restart()
  const again = await reconnect(host, worker, work)
  await again.send(work.event(`more ${LINE}`), work.complete())
  const { texts, bytes } = await stored(host, runId)
  expect(bytes).toBeLessThan(MIB)
  expect(texts.filter((text) => text.endsWith('the rest is left out'))).toHaveLength(1)
  expect(texts.at(-1)).toMatch(/^1[12]\d{5} bytes of the log are left out here/)
})

test('records without end are limited too', async () => {
  const host = await startSmall()
  const { connection, work, runId } = await acceptRun(host)
  const limit = {
    type: 'limit',
    at: '2026-01-01T00:00:00.000Z',
    provider: 'agentA',
    message: 'x'.repeat(16_000),
  }
  for (let i = 0; i < 100; i++) await connection.send({ ...work.event(), event: limit })
  for (let i = 0; i < 3; i++) await connection.send(work.memories('owner/other', 'poison'))
  await connection.send(work.complete())
  const { bytes, texts } = await stored(host, runId)
  expect(bytes).toBeLessThan(MIB + 1024)
  expect(texts.at(-1)).toMatch(/bytes of the log are left out here/)
})

test('the worker learns what it may report, and a retry what is left of it', async () => {
  const host = await startSmall()
  const { connection, work, runId } = await acceptRun(host)
  const { logBytes = 0, artifactBytes } = work.job.limits
  expect(logBytes).toBeGreaterThan(0.8 * MIB)
  expect(artifactBytes).toBe(2048 * MIB)
  for (let i = 0; i < 5; i++) await connection.send(work.event(LINE))
  await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
  await host.succeeded(host.hostApi.retryRun(runId))
  await host.settle()
  const second = new Work(connection.lastReceived('dispatch')).job.limits.logBytes ?? 0
  expect(second).toBeGreaterThan(0.3 * MIB)
  expect(second).toBeLessThan(0.5 * MIB)
})

test('an artifact beyond the budget is named once, with its bytes, and others are kept', async () => {
  const host = await startHost(configWith({ sandbox: { maxArtifactsMib: 1 } }))
  const { connection, work, runId } = await acceptRun(host)
  const part = 'x'.repeat(256 * 1024)
  await connection.send(work.artifact('small.txt', 'fits'))
  for (let n = 0; n < 6; n++) await connection.send(work.artifact('large.bin', part, n, n === 5))
  await connection.send(work.artifact('other.txt', 'fits too'))
  for (let n = 0; n < 5; n++) await connection.send(work.artifact('unfinished.bin', part, n, false))
  await connection.send(work.complete())
  const { texts } = await stored(host, runId)
  expect(texts.filter((text) => text.includes('was not kept'))).toEqual([
    expect.stringMatching(/^the artifact large\.bin \(1572864 bytes\) .*\(sandbox\.maxArtifactsMib\)$/),
    expect.stringMatching(/^the artifact unfinished\.bin \(1310720 bytes\) /),
  ])
  expect(await host.store.artifacts.names(runId)).toEqual(['other.txt', 'small.txt'])
  expect(host.run(runId).status).toBe('completed')
})

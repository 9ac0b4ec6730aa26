/** The cost of a person's session appears in its run once, however often it is exported. */
import { describe, expect, test } from '@jest/globals'
import { USAGE_NOT_KEPT } from '../../core/run/usage.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import {
  cost,
  enroll,
  type HostConversation,
  reconnect,
  type ScriptedConnection,
  startHost,
  Work,
} from './host-conversation.ts'
import { type RetainedRun, resumeAndRelease, retainRun, withAgent } from './terminal-conversation.ts'

const entry = (id: string, minute: number, more: Partial<UsageEntry> = {}): UsageEntry => ({
  id,
  at: `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`,
  model: 'm',
  inputTokens: 100,
  outputTokens: 10,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd: 0.25,
  ...more,
})

const snapshot = (entries: readonly UsageEntry[], subagentId?: string) => ({
  projectKey: '-work',
  sessionId: 'session-1',
  ...(subagentId === undefined ? {} : { subagentId }),
  entries,
})

const RUN = entry('run', 1)
const SUB = entry('sub', 2)

/** The run's own execution used two entries, one of them a subagent's, and both are in its costs. */
async function startWithFinishedRun(): Promise<RetainedRun & { readonly host: HostConversation }> {
  const host = await startHost(withAgent)
  const given = await retainRun(host, { costs: [cost(0.5)] }, (work) => [
    work.usage(snapshot([RUN])),
    work.usage(snapshot([SUB], 'sub-1')),
  ])
  return { host, ...given }
}

const exportUsage = (connection: ScriptedConnection, entries: readonly UsageEntry[], subagentId?: string) =>
  connection.send({ type: 'run-usage-snapshot', snapshot: snapshot(entries, subagentId) })

const costsOf = (host: HostConversation, runId: string): string[] =>
  host
    .run(runId)
    .costs.map(({ label, inputTokens, costUsd }) => `${label}: ${inputTokens} tokens, ${costUsd} USD`)

const OWN = 'run: 10 tokens, 0.5 USD'

describe('after a session', () => {
  test('its cost is a further entry of the run and excludes what the run itself used', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN, entry('a', 10), entry('b', 11)])
    await exportUsage(connection, [SUB], 'sub-1')
    await exportUsage(connection, [entry('c', 9, { model: 'other', costUsd: 1 })], 'sub-2')
    const { costs, costTotals } = host.run(runId)
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 300 tokens, 1.5 USD'])
    expect(costs[1]?.breakdown?.map(({ model, costUsd }) => `${model} ${costUsd}`)).toEqual([
      'm 0.5',
      'other 1',
    ])
    expect(costTotals).toMatchObject({ costUsd: 2, inputTokens: 310 })
  })

  test('its cost counts, too, in a later session of the worker that the host never heard of', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    const later = { sessionId: 'session-2' }
    const exportLater = (...entries: readonly UsageEntry[]) =>
      connection.send({ type: 'run-usage-snapshot', snapshot: { ...snapshot(entries), ...later } })
    await exportLater(entry('lost', 5))
    expect(host.log.lines.map(({ message }) => message)).toContain(USAGE_NOT_KEPT)
    await resumeAndRelease(host, connection, runId, later)
    await exportLater(entry('a', 59))
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
  })

  test('a repeated export changes nothing, and a longer one replaces it', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN, entry('a', 10)])
    await exportUsage(connection, [RUN, entry('a', 10)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
    await exportUsage(connection, [RUN, entry('a', 10), entry('b', 11)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 200 tokens, 0.5 USD'])
  })

  test('exports that arrive at the same time are all accounted', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await connection.send(
      ...Array.from({ length: 30 }, (_, at) => ({
        type: 'run-usage-snapshot',
        snapshot: snapshot([entry(`e${at}`, 20)], `sub-${at + 10}`),
      })),
      { type: 'run-usage-snapshot', snapshot: snapshot([RUN, entry('a', 30)]) },
    )
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 3100 tokens, 7.75 USD'])
    expect(await host.store.usage.list('-work')).toHaveLength(32)
  })

  test('a second session is a further entry and does not count the first again', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN, entry('a', 10)])
    await resumeAndRelease(host, connection, runId)
    // A late repetition of the first export.
    await exportUsage(connection, [RUN, entry('a', 10)])
    await exportUsage(connection, [RUN, entry('a', 10), entry('b', 20)])
    expect(costsOf(host, runId)).toEqual([
      OWN,
      'attach 1: 100 tokens, 0.25 USD',
      'attach 2: 100 tokens, 0.25 USD',
    ])
  })

  test('a session without any request costs nothing', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN])
    expect(costsOf(host, runId)).toEqual([OWN])
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN, entry('a', 10)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
  })

  test('a host that is killed in between counts the session once', async () => {
    const { host, connection, worker, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [RUN, entry('a', 10)])
    await host.crash()
    const again = await reconnect(host, worker)
    await exportUsage(again, [RUN, entry('a', 10), entry('b', 11)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 200 tokens, 0.5 USD'])
  })

  test('usage that was never archived counts from the end of the run', async () => {
    const host = await startHost(withAgent)
    const { connection, runId } = await retainRun(host, { costs: [cost(0.5)] })
    const end = Date.parse(host.run(runId).finishedAt ?? '')
    const at = (ms: number) => ({ at: new Date(end + ms).toISOString() })
    await resumeAndRelease(host, connection, runId)
    await exportUsage(connection, [entry('before', 0, at(-1_000)), entry('after', 0, at(1_000))])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
  })
})

test('costs that arrive during a retry of the run are written when the retry has ended', async () => {
  const { host, connection, runId } = await startWithFinishedRun()
  await resumeAndRelease(host, connection, runId)
  await host.succeeded(host.hostApi.retryRun(runId))
  await exportUsage(connection, [RUN, entry('a', 10)])
  expect(costsOf(host, runId)).toEqual([OWN])
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.complete({ costs: [cost(1)] }))
  const attempts = [OWN, 'attempt 2: 10 tokens, 1 USD']
  expect(costsOf(host, runId)).toEqual([...attempts, 'attach 1: 100 tokens, 0.25 USD'])
  await host.crash()
  expect(costsOf(host, runId)).toEqual([...attempts, 'attach 1: 100 tokens, 0.25 USD'])
})

describe('usage that comes without a lease', () => {
  const archivedIn = async (host: HostConversation, sessionId = 'session-1'): Promise<string[]> => {
    const { entries } = JSON.parse(
      (await host.store.usage.read({ projectKey: '-work', sessionId })) ?? '{"entries":[]}',
    )
    return entries.map(({ id }: UsageEntry) => id)
  }
  const refusals = (host: HostConversation) =>
    host.log.lines.filter(({ message }) => message === USAGE_NOT_KEPT).length

  test('of a session that was not booted on that worker is not kept and costs nothing', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await exportUsage(connection, [RUN, entry('a', 10)])
    expect([costsOf(host, runId), await archivedIn(host), refusals(host)]).toEqual([[OWN], ['run'], 1])
    await resumeAndRelease(host, connection, runId)
    await connection.send({
      type: 'run-usage-snapshot',
      snapshot: { ...snapshot([entry('a', 10)]), sessionId: 'session-2' },
    })
    expect([costsOf(host, runId), await archivedIn(host, 'session-2'), refusals(host)]).toEqual([
      [OWN],
      [],
      2,
    ])
    // A dropped snapshot was not accounted either.
    await exportUsage(connection, [RUN, entry('a', 10)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
  })

  test('from another worker is not kept', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    const unknownWorker = await enroll(host, 'unrelated')
    await exportUsage(unknownWorker.connection, [entry('forged', 10, { costUsd: 1_000 })])
    await exportUsage(unknownWorker.connection, [entry('forged', 10)], 'sub-1')
    expect(unknownWorker.connection.closed).toBeUndefined()
    expect([costsOf(host, runId), await archivedIn(host), refusals(host)]).toEqual([[OWN], ['run'], 2])
  })

  test('is kept when the host was started again meanwhile, and when the worker was', async () => {
    const { host, connection, worker, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await host.crash()
    const again = await reconnect(host, worker)
    await exportUsage(again, [RUN, entry('a', 10)])
    again.drop()
    await host.settle()
    const newer = await reconnect(host, worker)
    await exportUsage(newer, [RUN, entry('a', 10), entry('b', 11)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 200 tokens, 0.5 USD'])
    expect([await archivedIn(host), refusals(host)]).toEqual([['run', 'a', 'b'], 0])
  })

  test('is kept when the run was discarded meanwhile', async () => {
    const { host, connection, runId } = await startWithFinishedRun()
    await resumeAndRelease(host, connection, runId)
    await host.succeeded(host.hostApi.discardRun(runId))
    await exportUsage(connection, [RUN, entry('a', 10)])
    expect(costsOf(host, runId)).toEqual([OWN, 'attach 1: 100 tokens, 0.25 USD'])
    expect([await archivedIn(host), refusals(host)]).toEqual([['run', 'a'], 0])
  })
})

/** A session's cost is added to its run, also when the next session starts while the archive is being read. */
import { expect, test } from '@jest/globals'
import { SessionCosts } from '../../../actors/terminals/session-costs.ts'
import type { UsageKey } from '../../../core/ports/store.ts'
import type { Run } from '../../../protocol/run.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import { aRun } from '../../rules/run/runs.ts'
import { until } from '../../support/until.ts'

const SESSION = '0e6f2f3a-1111-4222-8333-444455556666'
const KEY: UsageKey = { projectKey: 'p', sessionId: SESSION }

const entry = (minute: number, outputTokens: number): UsageEntry => ({
  id: `msg-${minute}`,
  at: `2026-03-01T10:0${minute}:00.000Z`,
  model: 'scripted-1',
  inputTokens: 1,
  outputTokens,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
})

test('an export that is overtaken by the next boot is still accounted', async () => {
  let run = aRun({ status: 'completed', costs: [], finishedAt: entry(0, 0).at })
  let now = 1
  let archived = JSON.stringify({ entries: [entry(0, 5)] })
  let read: (() => void) | undefined
  const keyValues = new Map<string, object>()
  const costs = new SessionCosts({
    keyValues: { get: (_, key) => keyValues.get(key), all: () => keyValues },
    usage: {
      replace: async () => {},
      list: async () => [KEY],
      read: () =>
        new Promise((resolve) => {
          read = () => resolve(archived)
        }),
    },
    now: () => now++,
    trustedClock: { now: () => now },
    finishedRun: () => run,
    changeRun: (changed: Run) => {
      run = changed
    },
    requestCommit: () => {},
  })
  const archiveIsRead = async () => {
    await until('the archive is asked', () => read !== undefined)
    const answer = read
    read = undefined
    answer?.()
  }
  const commit = () => {
    const share = costs.contribute()
    for (const write of share?.writes ?? [])
      if (write.table === 'key-value' && write.value !== null) keyValues.set(write.key, write.value)
    share?.onCommitted()
  }
  const exported = async (entries: readonly UsageEntry[]) => {
    let isAccounted = false
    void costs.addExport('wk-1', KEY, entries).then(() => {
      isAccounted = true
    })
    return {
      archived: async () => {
        await until('it is accounted', () => {
          commit()
          return isAccounted
        })
        archived = JSON.stringify({ entries })
      },
    }
  }
  const costLabels = () => run.costs.map(({ label, outputTokens }) => `${label}: ${outputTokens}`)

  costs.startSession(run, 'wk-1', SESSION)
  const first = await exported([entry(0, 5), entry(1, 7)])
  await until('the archive is asked', () => read !== undefined)
  costs.startSession(run, 'wk-1', SESSION)
  await archiveIsRead()
  await archiveIsRead()
  await first.archived()
  expect(costLabels()).toEqual(['attach 1: 7'])

  const second = await exported([entry(0, 5), entry(1, 7), entry(2, 11)])
  await second.archived()
  expect(costLabels()).toEqual(['attach 1: 18'])
})

test('usage of one session in several projects is added up, each from where it was accounted', async () => {
  let run = aRun({ status: 'completed', costs: [], finishedAt: entry(0, 0).at })
  const archived: Record<string, readonly UsageEntry[]> = { p: [entry(0, 5)], constructor: [entry(1, 6)] }
  const keyValues = new Map<string, object>()
  const costs = new SessionCosts({
    keyValues: { get: (_, key) => keyValues.get(key), all: () => keyValues },
    usage: {
      replace: async () => {},
      list: async (projectKey) => (projectKey in archived ? [{ ...KEY, projectKey }] : []),
      read: async ({ projectKey }) => JSON.stringify({ entries: archived[projectKey] }),
    },
    now: () => 1,
    trustedClock: { now: () => 1 },
    finishedRun: () => run,
    changeRun: (changed: Run) => {
      run = changed
    },
    requestCommit: () => {},
  })
  const exported = async (projectKey: string, entries: readonly UsageEntry[]) => {
    let isAccounted = false
    void costs.addExport('wk-1', { ...KEY, projectKey }, entries).then(() => {
      isAccounted = true
    })
    await until('it is accounted', () => {
      const share = costs.contribute()
      for (const write of share?.writes ?? [])
        if (write.table === 'key-value' && write.value !== null) keyValues.set(write.key, write.value)
      share?.onCommitted()
      return isAccounted
    })
    archived[projectKey] = entries
  }
  const costLabels = () => run.costs.map(({ label, outputTokens }) => `${label}: ${outputTokens}`)

  costs.startSession(run, 'wk-1', SESSION)
  await exported('p', [entry(0, 5), entry(3, 7)])
  await exported('constructor', [entry(1, 6), entry(2, 11)])
  await exported('constructor', [entry(1, 6), entry(2, 11)])
  expect(costLabels()).toEqual(['attach 1: 18'])
})

test('a host that dies between accounting and archiving an export still counts it once', async () => {
  let run = aRun({ status: 'completed', costs: [], finishedAt: entry(0, 0).at })
  let now = 1
  const keyValues = new Map<string, object>()
  const started = () =>
    new SessionCosts({
      keyValues: { get: (_, key) => keyValues.get(key), all: () => keyValues },
      // The usage of the run's own executions only.
      usage: {
        replace: async () => {},
        list: async () => [KEY],
        read: async () => JSON.stringify({ entries: [entry(0, 5)] }),
      },
      now: () => now++,
      trustedClock: { now: () => now },
      finishedRun: () => run,
      changeRun: (changed: Run) => {
        run = changed
      },
      requestCommit: () => {},
    })
  const accounted = async (costs: SessionCosts, entries: readonly UsageEntry[]) => {
    costs.startSession(run, 'wk-1', SESSION)
    let isAccounted = false
    void costs.addExport('wk-1', KEY, entries).then(() => {
      isAccounted = true
    })
    await until('it is accounted', () => {
      const share = costs.contribute()
      for (const write of share?.writes ?? [])
        if (write.table === 'key-value' && write.value !== null) keyValues.set(write.key, write.value)
      share?.onCommitted()
      return isAccounted
    })
  }
  const costLabels = () => run.costs.map(({ label, outputTokens }) => `${label}: ${outputTokens}`)

  await accounted(started(), [entry(0, 5), entry(1, 7)])
  expect(costLabels()).toEqual(['attach 1: 7'])
  await accounted(started(), [entry(0, 5), entry(1, 7), entry(2, 11)])
  expect(costLabels()).toEqual(['attach 1: 7', 'attach 2: 11'])
})

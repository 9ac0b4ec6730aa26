/** `switchyard costs` against a real listener. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import { type CostsOptions, costs } from '../../../bin/cli/costs/costs.ts'
import { type StatusOptions, status } from '../../../bin/cli/status/status.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun } from '../../support/fake-host-api.ts'

const command = (context: CommandContext<CostsOptions>) => costs(context)

function entry(given: Partial<CostEntry>): CostEntry {
  return {
    label: 'run',
    provider: 'agentA',
    model: 'sonnet',
    inputTokens: 1_000,
    outputTokens: 100,
    cacheReadTokens: 500,
    cacheWriteTokens: 0,
    estimated: false,
    ...given,
  }
}

async function openPaidRuns() {
  const host = await openCommandHost()
  const add = (id: string, createdAt: string, finishedAt: string, entries: readonly CostEntry[]) => {
    const run = fakeRun(id, 'completed')
    host.hostApi.runsById.set(id, {
      ...run,
      ticket: { ...run.ticket, repo: id === 'run-1' ? 'api' : 'web' },
      createdAt,
      finishedAt,
      costs: [...entries],
    })
  }
  add('run-1', '2026-02-27T10:00:00.000Z', '2026-02-27T11:00:00.000Z', [entry({ costUsd: 2 })])
  // The local day of this end is the next one: the present of these tests is an hour ahead of UTC.
  add('run-2', '2026-02-28T22:00:00.000Z', '2026-02-28T23:30:00.000Z', [
    entry({ costUsd: 1.5, estimated: true }),
    entry({ costUsd: 0.5, provider: 'agentB' }),
  ])
  add('run-3', '2026-03-01T08:00:00.000Z', '2026-03-01T08:10:00.000Z', [entry({ model: 'codex' })])
  return host
}

test('a row stands for a local day, estimates are flagged, and runs without an amount are counted', async () => {
  const { print } = await openPaidRuns()
  const { out, err } = await print(command, { columns: 80, options: { by: 'day' } })
  expect(out).toBe(
    [
      'DAY         RUNS  TOKENS IN  TOKENS OUT    COST  ESTIMATED',
      '2026-02-27     1       1.5k         100   $2.00          -',
      '2026-03-01     2       4.5k         300  ~$2.00      $1.50',
      'total          3       6.0k         400  ~$4.00      $1.50\n',
    ].join('\n'),
  )
  expect(err).toMatch(/^\(1 run of 2026-03-01 reports tokens only/)
})

test.each([
  ['repo', ['api', 'web']],
  ['agent', ['agentA', 'agentB']],
  ['model', ['codex', 'sonnet']],
] as const)('--by %s has a row for each', async (by, keys) => {
  const { print } = await openPaidRuns()
  const { out } = await print(command, { options: { by, output: 'id' } })
  expect(out.trim().split('\n')).toEqual(keys)
})

test('--by model adds up the models of one execution', async () => {
  const { print, hostApi } = await openPaidRuns()
  const run = hostApi.runsById.get('run-1')
  if (run === undefined) throw new Error('no run')
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = entry({})
  const tokens = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  const breakdown = [
    { model: 'haiku', ...tokens, costUsd: 0.25 },
    { model: 'opus', ...tokens, costUsd: 1.75 },
  ]
  hostApi.runsById.set('run-1', { ...run, costs: [entry({ costUsd: 2, breakdown })] })
  const { out } = await print(command, { options: { by: 'model', since: '2026-02-27', json: true } })
  expect(JSON.parse(out).rows).toMatchObject([
    { key: 'codex' },
    { key: 'haiku', costUsd: 0.25 },
    { key: 'opus', costUsd: 1.75 },
    { key: 'sonnet', costUsd: 2, estimatedUsd: 1.5 },
  ])
})

test('--since leaves older runs out, and a pipe gets whole figures without a total', async () => {
  const { print } = await openPaidRuns()
  const { out } = await print(command, { options: { by: 'day', since: '12h' } })
  expect(out).toBe(
    ['DAY\tRUNS\tTOKENS IN\tTOKENS OUT\tCOST\tESTIMATED', '2026-03-01\t2\t4500\t300\t2\t1.5\n'].join('\n'),
  )
})

/** A run of 27 February whose follow-up ended an hour ago, and the events that say when each reported its costs. */
async function openFollowedUpRun() {
  const host = await openCommandHost()
  const [first, second] = [
    entry({ label: 'run', costUsd: 3 }),
    entry({ label: 'follow-up 1', provider: 'agentB', costUsd: 1 }),
  ]
  const reported = (index: number, at: string, cost: CostEntry): RunEvent => ({
    runId: 'run-1',
    index,
    at,
    type: 'cost',
    entry: cost,
  })
  host.hostApi.runsById.set('run-1', {
    ...fakeRun('run-1', 'completed'),
    createdAt: '2026-02-27T10:00:00.000Z',
    finishedAt: '2026-03-01T08:00:00.000Z',
    costs: [first, second],
  })
  host.hostApi.eventsById.set('run-1', [
    reported(0, '2026-02-27T10:40:00.000Z', first),
    reported(1, '2026-03-01T08:00:00.000Z', second),
  ])
  return host
}

test('each execution counts on the day on which it reported its costs', async () => {
  const { print } = await openFollowedUpRun()
  const { out } = await print(command, { options: { by: 'day', json: true } })
  expect(JSON.parse(out).rows).toMatchObject([
    { key: '2026-02-27', runs: 1, costUsd: 3 },
    { key: '2026-03-01', runs: 1, costUsd: 1 },
  ])
})

test('status says for today what costs say', async () => {
  const { print } = await openFollowedUpRun()
  const { out } = await print((context: CommandContext<StatusOptions>) => status(context), { options: {} })
  expect(out).toContain('today\t1 completed, $1.00\n')
})

test('status counts all runs of a busy day', async () => {
  const { print, hostApi } = await openCommandHost()
  for (let at = 0; at < 1_200; at++) {
    const id = `run-${String(at).padStart(4, '0')}`
    const finishedAt = at < 700 ? '2026-02-20T08:00:00.000Z' : '2026-03-01T08:00:00.000Z'
    hostApi.runsById.set(id, { ...fakeRun(id, at < 703 ? 'completed' : 'failed'), finishedAt })
  }
  const { out } = await print((context: CommandContext<StatusOptions>) => status(context), { options: {} })
  expect(out).toContain('today\t3 completed, 497 failed\n')
})

test.each(['day', 'repo', 'model', 'agent'] as const)(
  '--since leaves out what was spent before, by %s as well',
  async (by) => {
    const { print } = await openFollowedUpRun()
    const { out } = await print(command, { options: { by, since: '2026-03-01', json: true } })
    expect(JSON.parse(out).total).toMatchObject({ runs: 1, costUsd: 1 })
  },
)

test('an old run that goes on counts today, however many were created after it', async () => {
  const { print, hostApi } = await openCommandHost()
  for (let at = 0; at < 450; at++) {
    const id = `run-${String(at).padStart(4, '0')}`
    const old = { createdAt: '2026-01-01T08:00:00.000Z', costs: [entry({ costUsd: 1 })] }
    hostApi.runsById.set(
      id,
      at === 0
        ? { ...fakeRun(id, 'running'), ...old }
        : { ...fakeRun(id, 'completed'), ...old, finishedAt: '2026-01-01T08:10:00.000Z' },
    )
  }
  const { out } = await print(command, { options: { by: 'day', since: '1d', json: true } })
  expect(JSON.parse(out).rows).toMatchObject([{ key: '2026-03-01', runs: 1, costUsd: 1 }])
})

test('a narrow terminal keeps costs and estimates', async () => {
  const { print } = await openPaidRuns()
  const { out } = await print(command, { columns: 40, options: { by: 'day' } })
  expect(out.split('\n')[0]).toMatch(/^DAY .*COST +ESTIMATED$/)
})

test('the real command refuses another group and another time with 2', async () => {
  const { run } = await openPaidRuns()
  const [listed, group, time] = await Promise.all([
    run('costs', '-o', 'id'),
    run('costs', '--by', 'moon'),
    run('costs', '--since', 'never'),
  ])
  expect([listed.code, listed.out.split('\n')]).toEqual([0, expect.arrayContaining(['2026-02-27'])])
  expect([group.code, time.code, time.err]).toEqual([2, 2, expect.stringContaining('--since never')])
})

/** The report about runs for operators: one line in the log for each change of status, metrics of ends and costs. */
import { expect, test } from '@jest/globals'
import {
  acceptRun,
  cost,
  type HostConversation,
  offerRun,
  reconnect,
  startHost,
} from './host-conversation.ts'

interface Transition {
  readonly ticket: string
  readonly to: string
}

const lines = (host: HostConversation) =>
  host.log.lines.flatMap(({ level, fields, message }) =>
    'transition' in fields ? [{ level, message, ...(fields.transition as Transition) }] : [],
  )
const statuses = (host: HostConversation) => lines(host).map(({ to }) => to)

test('each change of status is one line, with costs and pull request', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.patch({ status: 'running' }), work.patch({ status: 'running' }))
  await connection.send(work.patch({ status: 'finalizing', costs: [cost(1)] }))
  await connection.send(work.complete({ costs: [cost(1)] }))
  expect(statuses(host)).toEqual(['queued', 'preparing', 'running', 'finalizing', 'completed'])
  for (const line of lines(host)) expect(line).toMatchObject({ level: 'info', ticket: 'ENG-1' })
  expect(lines(host).at(-1)).toMatchObject({ from: 'finalizing', seconds: expect.any(Number) })
  expect(lines(host).at(-1)?.message).toMatch(/^ENG-1 completed in /)
  expect(host.countOf('runs_ended_total run completed none')).toBe(1)
})

test('a restart repeats no line, and a loss of the worker is one', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await connection.send(work.running())
  await host.restart()
  const again = await reconnect(host, worker, work)
  expect(statuses(host)).toEqual(['queued', 'preparing', 'running'])
  await again.drop()
  await host.advance(600)
  expect(statuses(host).slice(3)[0]).toBe('queued')
})

test('a rejected dispatch changes no status', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  await connection.send(work.reject('busy: two runs already'))
  expect(statuses(host)).toEqual(['queued'])
})

test('costs count once, by repository, however often a worker reports them', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  for (const costs of [[cost(1)], [cost(1)], [cost(1), cost(2)]]) await connection.send(work.patch({ costs }))
  await connection.send(work.complete({ status: 'failed', error: 'it broke', costs: [cost(1), cost(2)] }))
  const total = host.allRuns()[0]?.costTotals?.costUsd
  expect(total).toBeGreaterThan(0)
  expect(host.countOf('run_costs_usd_total main false')).toBeCloseTo(total ?? 0)
  expect(host.countOf('runs_ended_total run failed reported')).toBe(1)
})

test('the costs of today become those of yesterday at midnight, and a restart keeps them', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.patch({ costs: [cost(1)] }))
  const spent = host.allRuns()[0]?.costTotals?.costUsd ?? 0
  const costsOf = (day: string) => host.countOf(`run_costs_day_usd ${day} main false`)
  expect(costsOf('today')).toBeCloseTo(spent)
  await host.restart()
  expect([costsOf('today'), costsOf('yesterday')]).toEqual([spent, 0])
  await host.advance(24 * 3600)
  expect([costsOf('today'), costsOf('yesterday')]).toEqual([0, spent])
  await host.advance(24 * 3600)
  expect([costsOf('today'), costsOf('yesterday')]).toEqual([0, 0])
})

test('costs that were not on disk when the host was killed count once', async () => {
  const host = await startHost()
  const { connection, work, worker } = await acceptRun(host)
  await connection.send(work.patch({ costs: [cost(1)] }))
  await host.crash()
  await reconnect(host, worker, work)
  const spent = host.allRuns()[0]?.costTotals?.costUsd ?? 0
  expect(spent).toBeGreaterThan(0)
  expect(host.countOf('run_costs_day_usd today main false')).toBeCloseTo(spent)
})

/** Metrics in the Prometheus text format. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { createPrometheusMetrics, type Metrics } from '../../../transport/metrics.ts'

test('metrics carry the declared names and labels', async () => {
  const metrics = createPrometheusMetrics()
  metrics.count('http_requests_total', { route: 'health', status: '2xx' }, 3)
  metrics.gauge('actors', 2, { kind: 'run' })
  metrics.observe('store_commit_seconds', 0.0004)
  const text = await metrics.text()
  expect(text).toContain('switchyard_http_requests_total{route="health",status="2xx"} 3')
  expect(text).toContain('switchyard_actors{kind="run"} 2')
  expect(text).toContain('switchyard_store_commit_seconds_bucket{le="0.0005"} 1')
  for (const name of [
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_seconds',
  ]) {
    expect(text).toContain(name)
  }
})

test('an undeclared label creates no series', async () => {
  const metrics = createPrometheusMetrics()
  metrics.count('http_requests_total', { route: 'health', status: '2xx', path: '/secret' })
  expect(await metrics.text()).not.toContain('secret')
})

test('the lag of the event loop is the longest since the last request', async () => {
  const metrics = createPrometheusMetrics()
  await lagOf(metrics, 'max')
  await blockFor(300)
  expect(await lagOf(metrics, 'max')).toBeGreaterThan(0.25)
  await sleep(50)
  expect(await lagOf(metrics, 'max')).toBeLessThan(0.25)
  expect(await lagOf(metrics, 'p99')).toBeLessThan(0.25)
})

test('the lag of the event loop is not measured before the first request', async () => {
  const metrics = createPrometheusMetrics()
  await blockFor(300)
  expect(await lagOf(metrics, 'max')).toBe(0)
})

test('no value is absurd when the event loop has not been measured yet', async () => {
  const values = (await createPrometheusMetrics().text()).match(/^nodejs_eventloop_lag\S* \S+$/gm) ?? []
  expect(values.length).toBeGreaterThan(3)
  for (const value of values) expect(Number(value.split(' ')[1]?.replace('Nan', 'NaN')) > 10).toBe(false)
})

test('the processor time counts from the start of the process', async () => {
  const text = await createPrometheusMetrics().text()
  const { user, system } = process.cpuUsage()
  const shown = (name: string) =>
    Number(new RegExp(`^process_cpu_${name}seconds_total (.*)$`, 'm').exec(text)?.[1])
  expect(shown('') * 1e6).toBeCloseTo(user + system, -6)
  expect(shown('user_') + shown('system_')).toBeCloseTo(shown(''), 1)
})

async function lagOf(metrics: Metrics, which: 'max' | 'p99'): Promise<number> {
  const line = new RegExp(`^nodejs_eventloop_lag_${which}_seconds (.*)$`, 'm').exec(await metrics.text())
  return Number(line?.[1])
}

/** The meter needs a turn before and after, in which it notices the time. */
async function blockFor(ms: number): Promise<void> {
  await sleep(50)
  const until = performance.now() + ms
  while (performance.now() < until);
  await sleep(50)
}

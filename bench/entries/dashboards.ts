/**
 * Measures event deliveries per second to a thousand dashboards, compared with bare publishing of the same text.
 *
 * Both servers are processes of their own; a third process holds the dashboards. Reading a thousand sockets costs
 * as much as writing them, so the server's own processor time per delivery counts, too.
 */
import type { BenchProcess, BenchResources } from '../bench-resources.ts'
import { type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Measurement } from '../figures.ts'
import { cpuMs } from '../process-usage.ts'
import { eventFrameBytes } from '../raw/dashboard-protocol.ts'

const DASHBOARDS = 1_000
const BURST = 1_600
const BURST_QUICK = 480

export const dashboards: Entry = {
  name: 'dashboards',
  about: `deliveries/s to ${DASHBOARDS} dashboard sockets / bare publish`,
  async measure(effort, resources) {
    const contestants = {
      ours: await startContestant(resources, 'ours'),
      raw: await startContestant(resources, 'raw'),
    }
    const burst = effort.quick ? BURST_QUICK : BURST
    const measureOnce = (who: 'ours' | 'raw') => () => measureDeliveries(contestants[who], burst)
    const rounds = await measureWhenSteady(effort.rounds, {
      ours: measureOnce('ours'),
      raw: measureOnce('raw'),
    })
    for (const { server, watchers } of Object.values(contestants)) {
      await watchers.stop()
      await server.stop()
    }
    const target = { of: 'ratio', is: 'at least', bound: 0.5 } as const
    const label = { name: `push to ${DASHBOARDS} dashboards`, unit: 'deliveries/s', target }
    return [compareMeasurements(label, rounds)]
  },
}

interface DashboardContestant {
  readonly server: BenchProcess
  readonly watchers: BenchProcess
}

async function startContestant(
  resources: BenchResources,
  which: 'ours' | 'raw',
): Promise<DashboardContestant> {
  const server = resources.startScript('bench/raw/push-server.ts', which)
  const watchers = resources.startScript(
    'bench/raw/dashboard-clients.ts',
    await server.readLine(),
    String(DASHBOARDS),
  )
  await watchers.readLine()
  return { server, watchers }
}

async function measureDeliveries(
  { server, watchers }: DashboardContestant,
  burst: number,
): Promise<Measurement> {
  const before = cpuMs(server.pid) ?? Number.NaN
  watchers.writeLine(String(burst * eventFrameBytes()))
  server.writeLine(String(burst))
  const ms = Number(await watchers.readLine())
  await server.readLine()
  const spent = (cpuMs(server.pid) ?? Number.NaN) - before
  const deliveries = burst * DASHBOARDS
  return { value: deliveries / (ms / 1000), cpuMicros: (spent * 1000) / deliveries }
}

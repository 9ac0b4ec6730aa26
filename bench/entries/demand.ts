/**
 * Measures the cost of a supervisor's question whether there is work, with a short and with a long queue.
 *
 * The only worker is enrolled and holds a run, so all other runs wait. Every request proves the worker's
 * credential. For comparison a minimal server answers with as many bytes.
 */
import { type ProductHost, startProductHost } from '../bench-hosts.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Figure, spread } from '../figures.ts'
import {
  CONNECTIONS,
  createBatchLoadGenerator,
  createLoadGenerator,
  type LoadGenerator,
  type LoadTarget,
} from '../load.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

/** The shortest time that wrk can measure. */
const SLICE_MS = 1_000
const QUEUES = { short: 10, long: 10_000 } as const

export const demand: Entry = {
  name: 'demand',
  about: 'demand requests/s, authenticated, short and long queue / a bare uWebSockets.js server',
  async measure(effort, resources) {
    await buildProduct(resources)
    const hosts = {
      short: await startProductHost(resources, { waiting: QUEUES.short + 1 }),
      long: await startProductHost(resources, { waiting: QUEUES.long + 1 }),
    }
    const targets = { short: await demandTarget(hosts.short), long: await demandTarget(hosts.long) }
    const body = await responseBytes(targets.short)
    const bare = resources.startScript('bench/raw/hello.ts', String(body))
    const raw: LoadTarget = { port: Number(await bare.readLine()), path: '/0', expect: 200, pid: bare.pid }
    const all = { ...targets, raw }
    const figures = [
      ...(await compareDemand(createLoadGenerator(resources), all, effort)),
      await compareInBatches(createBatchLoadGenerator(resources), all, effort),
    ]
    for (const host of Object.values(hosts)) await host.stop()
    await bare.stop()
    return figures
  },
}

async function demandTarget({ workerLoad, child, port }: ProductHost): Promise<LoadTarget> {
  const [member] = await workerLoad.enroll(1, 1)
  if (member === undefined) throw new Error('the worker was not enrolled')
  await workerLoad.hold(1)
  const headers = { authorization: `Bearer ${member.credential}` }
  return {
    port,
    path: `/api/worker/demand?workerId=${member.workerId}`,
    headers,
    expect: 200,
    pid: child.pid,
  }
}

async function responseBytes({ port, path, headers = {} }: LoadTarget): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
  if (response.status !== 200) throw new Error(`demand answered ${response.status}: ${await response.text()}`)
  return (await response.arrayBuffer()).byteLength
}

type DemandTargets = Readonly<Record<'short' | 'long' | 'raw', LoadTarget>>

async function compareDemand(
  load: LoadGenerator,
  targets: DemandTargets,
  { rounds, roundMs }: Effort,
): Promise<Figure[]> {
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const seen = await measureWhenSteady(rounds * slices, {
    short: () => measureLoad(load, targets.short),
    long: () => measureLoad(load, targets.long),
    raw: () => measureLoad(load, targets.raw),
  })
  const compare = (name: string, ours: 'short' | 'long', raw: 'short' | 'raw', bound: number): Figure =>
    compareMeasurements(
      {
        name,
        unit: 'requests/s',
        target: { of: 'processor ratio', is: 'at least', bound },
        notes: [`${load.name}, ${CONNECTIONS} connections`],
      },
      seen.map((slice) => ({ ours: slice[ours], raw: slice[raw] })),
      slices,
    )
  return [
    compare(`demand, ${QUEUES.short} queued`, 'short', 'raw', 0.7),
    compare(`demand, ${amount(QUEUES.long)} queued`, 'long', 'raw', 0.7),
    compare('demand, long queue / short', 'long', 'short', 0.95),
  ]
}

/** Reading and writing sockets costs both servers as much, and in batches it costs little. */
async function compareInBatches(
  load: LoadGenerator,
  { long, raw }: DemandTargets,
  { rounds, roundMs }: Effort,
): Promise<Figure> {
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const seen = await measureWhenSteady(rounds * slices, {
    ours: () => measureLoad(load, long),
    raw: () => measureLoad(load, raw),
  })
  const generator = spread(seen.map(({ ours }) => ours.generatorMicros)).median
  const notes = [`${load.name}, which cost ${amount(generator)} µs a request`]
  const label = { name: `demand, ${amount(QUEUES.long)} queued, in batches`, unit: 'requests/s', notes }
  return compareMeasurements(label, seen, slices)
}

async function measureLoad(load: LoadGenerator, target: LoadTarget) {
  const { perSecond, cpuMicros = Number.NaN, generatorMicros = Number.NaN } = await load.run(target, SLICE_MS)
  return { value: perSecond, cpuMicros, generatorMicros }
}

/**
 * Measures the cost of a supervisor's question whether there is work, with a short and with a long queue.
 *
 * The only worker is enrolled and holds a run, so all other runs wait. Every request proves the worker's
 * credential. For comparison a minimal server answers with as many bytes.
 */
import { type ProductHost, startProductHost } from '../bench-hosts.ts'
import { type Effort, type Entry, measureInTurn } from '../entry.ts'
import { compareFigure, type Figure, groupIntoRounds, spread } from '../figures.ts'
import {
  CONNECTIONS,
  createLoadGenerator,
  type LoadGenerator,
  type LoadResult,
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
    const figures = await compareDemand(createLoadGenerator(resources), { ...targets, raw }, effort)
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

async function compareDemand(
  load: LoadGenerator,
  targets: Readonly<Record<'short' | 'long' | 'raw', LoadTarget>>,
  { rounds, roundMs }: Effort,
): Promise<Figure[]> {
  const loads = { short: [] as LoadResult[], long: [] as LoadResult[], raw: [] as LoadResult[] }
  const measureOnce = (who: keyof typeof targets) => async () => {
    const seen = await load.run(targets[who], SLICE_MS)
    loads[who].push(seen)
    return seen.perSecond
  }
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const seen = await measureInTurn(rounds * slices, {
    short: measureOnce('short'),
    long: measureOnce('long'),
    raw: measureOnce('raw'),
  })
  const cost = (who: keyof typeof targets): string =>
    `${who} ${amount(spread(loads[who].map(({ cpuMicros }) => cpuMicros ?? Number.NaN)).median)} µs`
  const notes = [
    `${load.name}, ${CONNECTIONS} connections; processor time a request: ${cost('short')}, ${cost('long')}, ${cost('raw')}`,
  ]
  const pairs = (ours: 'short' | 'long', raw: 'short' | 'raw') =>
    groupIntoRounds(
      seen.map((slice) => ({ ours: slice[ours], raw: slice[raw] })),
      slices,
    )
  const atLeast = (bound: number) => ({ of: 'ratio', is: 'at least', bound }) as const
  return [
    compareFigure(
      { name: `demand, ${QUEUES.short} queued`, unit: 'requests/s', target: atLeast(0.7), notes },
      pairs('short', 'raw'),
    ),
    compareFigure(
      { name: `demand, ${amount(QUEUES.long)} queued`, unit: 'requests/s', target: atLeast(0.7) },
      pairs('long', 'raw'),
    ),
    compareFigure(
      { name: 'demand, long queue / short', unit: 'requests/s', target: atLeast(0.95) },
      pairs('long', 'short'),
    ),
  ]
}

/**
 * Measures requests to the management listener, compared with a minimal server that answers with as many bytes.
 *
 * Both servers are processes of their own and get the same load in turn. `health` needs no token; `config` proves
 * the launch token; the refusals show the cost of requests without authorization.
 */
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Figure, spread, type Target } from '../figures.ts'
import {
  CONNECTIONS,
  createLoadGenerator,
  type LoadGenerator,
  type LoadResult,
  type LoadTarget,
} from '../load.ts'
import { buildProduct, type ServedHost, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

/** The shortest time that wrk can measure. */
const SLICE_MS = 1_000
const TARGET = { of: 'ratio', is: 'at least', bound: 0.7 } as const

interface HttpCase {
  readonly name: string
  readonly path: string
  readonly withToken: boolean
  readonly expect: number
}

export const httpCases: readonly HttpCase[] = [
  { name: 'http health', path: '/api/health', withToken: false, expect: 200 },
  { name: 'http config', path: '/api/config', withToken: true, expect: 200 },
  { name: 'http 404', path: '/api/nothing', withToken: true, expect: 404 },
  { name: 'http 401', path: '/api/config', withToken: false, expect: 401 },
]

export const http: Entry = {
  name: 'http',
  about: 'requests/s at the management listener / a bare uWebSockets.js server',
  async measure(effort, resources) {
    await buildProduct(resources)
    const folder = resources.createFolder('http')
    const served = await startHost(resources, folder)
    const bodies = await Promise.all(httpCases.map((httpCase) => responseBytes(served, httpCase)))
    const bare = resources.startScript('bench/raw/hello.ts', ...bodies.map(String))
    const barePort = Number(await bare.readLine())
    const load = createLoadGenerator(resources)
    const figures: Figure[] = []
    for (const [at, httpCase] of httpCases.entries()) {
      const ours = targetFor(served, httpCase)
      const raw = { port: barePort, path: `/${at}`, expect: 200, pid: bare.pid }
      figures.push(await compareRequests(httpCase.name, load, { ours, raw }, effort))
    }
    await Promise.all([served.child.stop(), bare.stop()])
    resources.removeFolder(folder)
    return figures
  },
}

export function targetFor(
  { port, token, child }: ServedHost,
  { path, withToken, expect }: HttpCase,
): LoadTarget {
  return {
    port,
    path,
    expect,
    pid: child.pid,
    ...(withToken ? { headers: { authorization: `Bearer ${token}` } } : {}),
  }
}

async function responseBytes(served: ServedHost, httpCase: HttpCase): Promise<number> {
  const { port, path, headers = {}, expect } = targetFor(served, httpCase)
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
  if (response.status !== expect) throw new Error(`${path} answered ${response.status}, not ${expect}`)
  return (await response.arrayBuffer()).byteLength
}

export async function compareRequests(
  name: string,
  load: LoadGenerator,
  targets: { readonly ours: LoadTarget; readonly raw: LoadTarget },
  { rounds, roundMs }: Pick<Effort, 'rounds' | 'roundMs'>,
  target: Target = TARGET,
): Promise<Figure> {
  const loads: { ours: LoadResult[]; raw: LoadResult[] } = { ours: [], raw: [] }
  const measureOnce = (who: 'ours' | 'raw') => async () => {
    const seen = await load.run(targets[who], SLICE_MS)
    loads[who].push(seen)
    return { value: seen.perSecond, cpuMicros: seen.cpuMicros ?? Number.NaN }
  }
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const seen = await measureWhenSteady(rounds * slices, {
    ours: measureOnce('ours'),
    raw: measureOnce('raw'),
  })
  const notes = [
    `${load.name}, ${CONNECTIONS} connections; p50/p99 ours ${latency(loads.ours)} ms, raw ${latency(loads.raw)} ms`,
  ]
  return compareMeasurements({ name, unit: 'requests/s', target, notes }, seen, slices)
}

const middle = (values: readonly number[]): number => spread(values).median

function latency(loads: readonly LoadResult[]): string {
  return `${amount(middle(loads.map(({ p50Ms }) => p50Ms)))}/${amount(middle(loads.map(({ p99Ms }) => p99Ms)))}`
}

/**
 * Measures the page of all pull requests, for many repositories at a code host with realistic latency: first
 * without cached data, then unchanged.
 *
 * The floor sends the very same requests at once with undici alone, the second time with the entity tags of the
 * first. Each first measurement uses a newly started host, which has no cached data.
 */
import { Agent } from 'undici'
import type { BenchProcess, BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareFigure, compareMeasurements, type Figure, spread } from '../figures.ts'
import { cpuMs, residentMemory, waitUntilIdle } from '../process-usage.ts'
import type { RequestSummary } from '../raw/busy-github.ts'
import { buildProduct, type ServedHost, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const REPOS = 50
const PULLS = 20
const LATENCY_MS = 50
/** Unchanged pages in a round; GitHub's limit per minute, which the product keeps, allows hardly more. */
const REPEATS = 5
/** The product may take three times as long as the floor's single round trip. */
const THREE_TRIPS = { of: 'ratio', is: 'at most', bound: 3 } as const
const ALL = `${REPOS} × ${PULLS} pull requests`

interface GithubServer {
  readonly child: BenchProcess
  readonly apiUrl: string
  readonly origin: string
  readonly token: string
  readonly names: readonly string[]
}

/** A page without cached data, and then unchanged. */
interface PageMeasurement {
  readonly coldMs: number
  /** Processor time of the requesting process, which has no children that request. */
  readonly coldCpuMs: number
  readonly cold: RequestSummary
  readonly warmMs: number
  readonly warm: RequestSummary
  /** Processor time of the same process for one unchanged page. */
  readonly warmCpuMs: number
  readonly grownMib: number
}

export const pulls: Entry = {
  name: 'pulls',
  about: `GET /api/pulls of ${ALL}, cold and unchanged / the same requests at once by undici`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const server = await startGithubServer(resources)
    const ours: PageMeasurement[] = []
    const raw: PageMeasurement[] = []
    let paths: readonly string[] = []
    const contestants = {
      ours: async () => {
        ours.push(await measureProduct(resources, server))
        paths = ours.at(-1)?.cold.paths ?? []
        return 0
      },
      raw: async () => {
        raw.push(await measureUndici(server, paths))
        return 0
      },
    }
    await measureInTurn(effort.rounds, contestants)
    await server.child.stop()
    // `measureInTurn` discards the first round as a warm-up.
    return figuresOf(ours.slice(1), raw.slice(1))
  },
}

function figuresOf(ours: readonly PageMeasurement[], raw: readonly PageMeasurement[]): Figure[] {
  const pairs = <T>(of: (measurement: PageMeasurement) => T) =>
    ours.map((own, at) => ({ ours: of(own), raw: of(raw[at] ?? own) }))
  const { cold, warm } = ours[0] as PageMeasurement
  const depths = ours.flatMap((measurement) => [measurement.cold.depth, measurement.warm.depth])
  const grown = spread(ours.map(({ grownMib }) => grownMib)).median
  return [
    compareMeasurements(
      {
        name: 'pulls, first time',
        unit: 'ms',
        target: THREE_TRIPS,
        notes: [
          `${ALL}, ${LATENCY_MS} ms away: ${cold.requests} requests, ${cold.charged} of the quota`,
          'processor time of a host whose code is not compiled yet, beside a bench that has run for a while',
        ],
      },
      pairs(({ coldMs, coldCpuMs }) => ({ value: coldMs, cpuMicros: coldCpuMs * 1_000 })),
    ),
    absoluteFigure(
      { name: 'pulls, round trips deep', unit: 'trips', target: { of: 'ours', is: 'at most', bound: 3 } },
      depths,
    ),
    compareMeasurements(
      {
        name: 'pulls, unchanged',
        unit: 'ms',
        target: THREE_TRIPS,
        notes: [
          `${warm.requests} requests; the host grew by ${amount(grown)} MiB since its start, including garbage`,
        ],
      },
      pairs(({ warmMs, warmCpuMs }) => ({ value: warmMs, cpuMicros: warmCpuMs * 1_000 })),
    ),
    absoluteFigure(
      {
        name: 'pulls, unchanged, of the quota',
        unit: 'requests',
        target: { of: 'ours', is: 'at most', bound: 0 },
      },
      ours.map((measurement) => measurement.warm.charged),
    ),
    compareFigure(
      {
        name: 'pulls, unchanged, processor time',
        unit: 'ms',
        target: { of: 'ours', is: 'at most', bound: 100 },
        notes: ['of a host that has just started'],
      },
      pairs(({ warmCpuMs }) => warmCpuMs),
    ),
  ]
}

async function startGithubServer(resources: BenchResources): Promise<GithubServer> {
  const child = resources.startScript('bench/raw/busy-github.ts', ...[REPOS, PULLS, LATENCY_MS].map(String))
  // The child prints its own address and repositories.
  return { child, ...(JSON.parse(await child.readLine()) as Omit<GithubServer, 'child'>) }
}

async function takeSummary({ child }: GithubServer): Promise<RequestSummary> {
  child.writeLine('')
  return JSON.parse(await child.readLine()) as RequestSummary
}

/** Loads the page once without cached data, and then several times unchanged. */
async function measurePage(
  server: GithubServer,
  loadPage: () => Promise<void>,
  pid: number,
): Promise<PageMeasurement> {
  await takeSummary(server)
  const before = residentMemory(pid).ownMib
  const cpuAtStart = cpuMs(pid) ?? Number.NaN
  const coldMs = await timed(loadPage)
  const coldCpuMs = (cpuMs(pid) ?? Number.NaN) - cpuAtStart
  const cold = await takeSummary(server)
  // The first unchanged load only warms up the compiler.
  await loadPage()
  await takeSummary(server)
  const cpuBefore = await waitUntilIdle(pid)
  const times: number[] = []
  for (let at = 0; at < REPEATS; at++) times.push(await timed(loadPage))
  const warmCpuMs = ((cpuMs(pid) ?? Number.NaN) - cpuBefore) / REPEATS
  const all = await takeSummary(server)
  const warm = { ...all, requests: all.requests / REPEATS, depth: Math.ceil(all.depth / REPEATS) }
  const grownMib = residentMemory(pid).ownMib - before
  return { coldMs, coldCpuMs, cold, warmMs: spread(times).median, warm, warmCpuMs, grownMib }
}

async function timed(act: () => Promise<void>): Promise<number> {
  const from = performance.now()
  await act()
  return performance.now() - from
}

// ---- ours ----------------------------------------------------------------------------------------------------------

async function measureProduct(resources: BenchResources, server: GithubServer): Promise<PageMeasurement> {
  const folder = resources.createFolder('pulls')
  const served = await startHost(resources, folder, {
    codehost: { driver: 'github', apiUrl: server.apiUrl, token: server.token },
    repos: Object.fromEntries(server.names.map((remote) => [remote.replace('/', '-'), { remote }])),
  })
  await waitUntilIdle(served.child.pid)
  const measurement = await measurePage(server, () => loadPullsPage(served), served.child.pid)
  await served.child.stop()
  resources.removeFolder(folder)
  return measurement
}

async function loadPullsPage({ port, token }: ServedHost): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`http://127.0.0.1:${port}/api/pulls`, { headers })
  // The fields of the protocol; a missing pull request would make the comparison meaningless.
  const { pulls, errors } = (await response.json()) as Record<'pulls' | 'errors', readonly unknown[]>
  if (pulls.length !== REPOS * PULLS || errors.length > 0)
    throw new Error(`the page has ${pulls.length} pull requests and ${errors.length} errors`)
}

// ---- undici alone ----------------------------------------------------------------------------------------------------

async function measureUndici(server: GithubServer, paths: readonly string[]): Promise<PageMeasurement> {
  const agent = new Agent()
  const etags = new Map<string, string>()
  const ask = async (path: string): Promise<void> => {
    const etag = etags.get(path)
    const { headers, body } = await agent.request({
      origin: server.origin,
      path,
      method: 'GET',
      headers: {
        accept: 'application/vnd.github+json',
        'user-agent': 'bench',
        authorization: `Bearer ${server.token}`,
        ...(etag === undefined ? {} : { 'if-none-match': etag }),
      },
    })
    await body.text()
    etags.set(path, String(headers.etag))
  }
  const page = async (): Promise<void> => void (await Promise.all(paths.map(ask)))
  const measurement = await measurePage(server, page, process.pid)
  await agent.close()
  return measurement
}

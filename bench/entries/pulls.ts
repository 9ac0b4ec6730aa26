/**
 * The page of all pull requests: many repositories at a code host that is as far away as real ones are, first with
 * nothing known and then with nothing changed.
 *
 * The floor is the very same requests, all of them at once, by undici alone; the second time with the marks that came
 * with the first. A host that has just started knows nothing, so there is a new one for each first time.
 */
import { Agent } from 'undici'
import {
  type BenchProcess,
  type BenchResources,
  cpuMs,
  residentMemory,
  waitUntilIdle,
} from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareFigure, type Figure, spread } from '../figures.ts'
import type { RequestSummary } from '../raw/busy-github.ts'
import { buildProduct, type ServedHost, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const REPOS = 50
const PULLS = 20
const LATENCY_MS = 50
/** Unchanged pages in a round. Nobody may ask GitHub for many more within a minute, and ours keeps to that. */
const REPEATS = 5
/** Of ours to the floor's one. */
const THREE_TRIPS = { of: 'ratio', is: 'at most', bound: 3 } as const
const ALL = `${REPOS} × ${PULLS} pull requests`

interface GithubServer {
  readonly child: BenchProcess
  readonly apiUrl: string
  readonly origin: string
  readonly token: string
  readonly names: readonly string[]
}

/** One page, once with nothing known and then with nothing changed. */
interface PageMeasurement {
  readonly coldMs: number
  readonly cold: RequestSummary
  readonly warmMs: number
  readonly warm: RequestSummary
  /** Of whoever asked, for one unchanged page. */
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
    // The turns that inTurn throws away.
    return figuresOf(ours.slice(1), raw.slice(1))
  },
}

function figuresOf(ours: readonly PageMeasurement[], raw: readonly PageMeasurement[]): Figure[] {
  const pairs = (of: (measurement: PageMeasurement) => number) =>
    ours.map((own, at) => ({ ours: of(own), raw: of(raw[at] ?? own) }))
  const { cold, warm } = ours[0] as PageMeasurement
  const depths = ours.flatMap((measurement) => [measurement.cold.depth, measurement.warm.depth])
  const grown = spread(ours.map(({ grownMib }) => grownMib)).median
  return [
    compareFigure(
      {
        name: 'pulls, first time',
        unit: 'ms',
        target: THREE_TRIPS,
        notes: [`${ALL}, ${LATENCY_MS} ms away: ${cold.requests} requests, ${cold.charged} of the quota`],
      },
      pairs(({ coldMs }) => coldMs),
    ),
    absoluteFigure(
      { name: 'pulls, round trips deep', unit: 'trips', target: { of: 'ours', is: 'at most', bound: 3 } },
      depths,
    ),
    compareFigure(
      {
        name: 'pulls, unchanged',
        unit: 'ms',
        target: THREE_TRIPS,
        notes: [
          `${warm.requests} requests; the host grew by ${amount(grown)} MiB since it knew nothing, garbage included`,
        ],
      },
      pairs(({ warmMs }) => warmMs),
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
        notes: ['of a host that has just started: most of its code is not compiled yet'],
      },
      pairs(({ warmCpuMs }) => warmCpuMs),
    ),
  ]
}

async function startGithubServer(resources: BenchResources): Promise<GithubServer> {
  const child = resources.startScript('bench/raw/busy-github.ts', ...[REPOS, PULLS, LATENCY_MS].map(String))
  // What a child of ours says of itself.
  return { child, ...(JSON.parse(await child.readLine()) as Omit<GithubServer, 'child'>) }
}

async function takeSummary({ child }: GithubServer): Promise<RequestSummary> {
  child.writeLine('')
  return JSON.parse(await child.readLine()) as RequestSummary
}

/** Asks for the page once with nothing known, and then a few times with nothing changed. */
async function measurePage(
  server: GithubServer,
  loadPage: () => Promise<void>,
  pid: number,
): Promise<PageMeasurement> {
  await takeSummary(server)
  const before = residentMemory(pid).ownMib
  const coldMs = await timed(loadPage)
  const cold = await takeSummary(server)
  // The first unchanged one is thrown away: code is still being compiled.
  await loadPage()
  await takeSummary(server)
  const cpuBefore = await waitUntilIdle(pid)
  const times: number[] = []
  for (let at = 0; at < REPEATS; at++) times.push(await timed(loadPage))
  const warmCpuMs = ((cpuMs(pid) ?? Number.NaN) - cpuBefore) / REPEATS
  const all = await takeSummary(server)
  const warm = { ...all, requests: all.requests / REPEATS, depth: Math.ceil(all.depth / REPEATS) }
  const grownMib = residentMemory(pid).ownMib - before
  return { coldMs, cold, warmMs: spread(times).median, warm, warmCpuMs, grownMib }
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
  // As the protocol has it; short of one pull request, there is nothing to compare.
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

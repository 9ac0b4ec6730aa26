/**
 * The page of all pull requests: many repositories at a code host that is as far away as real ones are, first with
 * nothing known and then with nothing changed.
 *
 * The floor is the very same requests, all of them at once, by undici alone; the second time with the marks that came
 * with the first. A host that has just started knows nothing, so there is a new one for each first time.
 */
import { Agent } from 'undici'
import { atRest, type Child, cpuMs, resident, type Workshop } from '../bench-resources.ts'
import { type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, measured, spread } from '../figures.ts'
import type { Asked } from '../raw/busy-github.ts'
import { buildProduct, type Served, serve } from '../served-host.ts'
import { amount } from '../table.ts'

const REPOS = 50
const PULLS = 20
const LATENCY_MS = 50
/** Unchanged pages in a round. Nobody may ask GitHub for many more within a minute, and ours keeps to that. */
const LOOKS = 5
/** Of ours to the floor's one. */
const THREE_TRIPS = { of: 'ratio', is: 'at most', bound: 3 } as const
const ALL = `${REPOS} × ${PULLS} pull requests`

interface Place {
  readonly child: Child
  readonly apiUrl: string
  readonly origin: string
  readonly token: string
  readonly names: readonly string[]
}

/** One page, once with nothing known and then with nothing changed. */
interface Look {
  readonly coldMs: number
  readonly cold: Asked
  readonly warmMs: number
  readonly warm: Asked
  /** Of whoever asked, for one unchanged page. */
  readonly warmCpuMs: number
  readonly grownMib: number
}

export const pulls: Entry = {
  name: 'pulls',
  about: `GET /api/pulls of ${ALL}, cold and unchanged / the same requests at once by undici`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const place = await opened(workshop)
    const ours: Look[] = []
    const raw: Look[] = []
    let paths: readonly string[] = []
    const turns = {
      ours: async () => {
        ours.push(await oursIn(workshop, place))
        paths = ours.at(-1)?.cold.paths ?? []
        return 0
      },
      raw: async () => {
        raw.push(await rawly(place, paths))
        return 0
      },
    }
    await inTurn(effort.rounds, turns)
    await place.child.stop()
    // The turns that inTurn throws away.
    return figuresOf(ours.slice(1), raw.slice(1))
  },
}

function figuresOf(ours: readonly Look[], raw: readonly Look[]): Figure[] {
  const pairs = (of: (look: Look) => number) =>
    ours.map((own, at) => ({ ours: of(own), raw: of(raw[at] ?? own) }))
  const { cold, warm } = ours[0] as Look
  const depths = ours.flatMap((look) => [look.cold.depth, look.warm.depth])
  const grown = spread(ours.map(({ grownMib }) => grownMib)).median
  return [
    compared(
      {
        name: 'pulls, first time',
        unit: 'ms',
        target: THREE_TRIPS,
        notes: [`${ALL}, ${LATENCY_MS} ms away: ${cold.requests} requests, ${cold.charged} of the quota`],
      },
      pairs(({ coldMs }) => coldMs),
    ),
    measured(
      { name: 'pulls, round trips deep', unit: 'trips', target: { of: 'ours', is: 'at most', bound: 3 } },
      depths,
    ),
    compared(
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
    measured(
      {
        name: 'pulls, unchanged, of the quota',
        unit: 'requests',
        target: { of: 'ours', is: 'at most', bound: 0 },
      },
      ours.map((look) => look.warm.charged),
    ),
    compared(
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

async function opened(workshop: Workshop): Promise<Place> {
  const child = workshop.script('bench/raw/busy-github.ts', ...[REPOS, PULLS, LATENCY_MS].map(String))
  // What a child of ours says of itself.
  return { child, ...(JSON.parse(await child.line()) as Omit<Place, 'child'>) }
}

async function askedOf({ child }: Place): Promise<Asked> {
  child.say('')
  return JSON.parse(await child.line()) as Asked
}

/** Asks for the page once with nothing known, and then a few times with nothing changed. */
async function looked(place: Place, page: () => Promise<void>, pid: number): Promise<Look> {
  await askedOf(place)
  const before = resident(pid).ownMib
  const coldMs = await timed(page)
  const cold = await askedOf(place)
  // The first unchanged one is thrown away: code is still being compiled.
  await page()
  await askedOf(place)
  const cpuBefore = await atRest(pid)
  const times: number[] = []
  for (let at = 0; at < LOOKS; at++) times.push(await timed(page))
  const warmCpuMs = ((cpuMs(pid) ?? Number.NaN) - cpuBefore) / LOOKS
  const all = await askedOf(place)
  const warm = { ...all, requests: all.requests / LOOKS, depth: Math.ceil(all.depth / LOOKS) }
  const grownMib = resident(pid).ownMib - before
  return { coldMs, cold, warmMs: spread(times).median, warm, warmCpuMs, grownMib }
}

async function timed(act: () => Promise<void>): Promise<number> {
  const from = performance.now()
  await act()
  return performance.now() - from
}

// ---- ours ----------------------------------------------------------------------------------------------------------

async function oursIn(workshop: Workshop, place: Place): Promise<Look> {
  const folder = workshop.folder('pulls')
  const served = await serve(workshop, folder, {
    codehost: { driver: 'github', apiUrl: place.apiUrl, token: place.token },
    repos: Object.fromEntries(place.names.map((remote) => [remote.replace('/', '-'), { remote }])),
  })
  await atRest(served.child.pid)
  const look = await looked(place, () => pageOf(served), served.child.pid)
  await served.child.stop()
  workshop.removeFolder(folder)
  return look
}

async function pageOf({ port, token }: Served): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`http://127.0.0.1:${port}/api/pulls`, { headers })
  // As the protocol has it; short of one pull request, there is nothing to compare.
  const { pulls, errors } = (await response.json()) as Record<'pulls' | 'errors', readonly unknown[]>
  if (pulls.length !== REPOS * PULLS || errors.length > 0)
    throw new Error(`the page has ${pulls.length} pull requests and ${errors.length} errors`)
}

// ---- undici alone ----------------------------------------------------------------------------------------------------

async function rawly(place: Place, paths: readonly string[]): Promise<Look> {
  const agent = new Agent()
  const marks = new Map<string, string>()
  const ask = async (path: string): Promise<void> => {
    const mark = marks.get(path)
    const { headers, body } = await agent.request({
      origin: place.origin,
      path,
      method: 'GET',
      headers: {
        accept: 'application/vnd.github+json',
        'user-agent': 'bench',
        authorization: `Bearer ${place.token}`,
        ...(mark === undefined ? {} : { 'if-none-match': mark }),
      },
    })
    await body.text()
    marks.set(path, String(headers.etag))
  }
  const page = async (): Promise<void> => void (await Promise.all(paths.map(ask)))
  const look = await looked(place, page, process.pid)
  await agent.close()
  return look
}

/**
 * What a request costs at the management door, beside the barest server that answers with as many bytes.
 *
 * Both servers are processes of their own and get the same load in turn. `health` asks for nothing; `config` proves
 * the launch token; the refusals show what a stranger can make us spend.
 */
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, roundsOf, spread, type Target } from '../figures.ts'
import { type Aim, CONNECTIONS, type Generator, generator, type Load } from '../load.ts'
import { buildProduct, type Served, serve } from '../served-host.ts'
import { amount } from '../table.ts'

/** The shortest that wrk can count. */
const SLICE_MS = 1_000
const TARGET = { of: 'ratio', is: 'at least', bound: 0.7 } as const

interface Question {
  readonly name: string
  readonly path: string
  readonly withToken: boolean
  readonly expect: number
}

const questions: readonly Question[] = [
  { name: 'http health', path: '/api/health', withToken: false, expect: 200 },
  { name: 'http config', path: '/api/config', withToken: true, expect: 200 },
  { name: 'http 404', path: '/api/nothing', withToken: true, expect: 404 },
  { name: 'http 401', path: '/api/config', withToken: false, expect: 401 },
]

export const http: Entry = {
  name: 'http',
  about: 'requests/s at the management door / a bare uWebSockets.js server',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const folder = workshop.folder('http')
    const served = await serve(workshop, folder)
    const bodies = await Promise.all(questions.map((question) => bodyBytes(served, question)))
    const bare = workshop.script('bench/raw/hello.ts', ...bodies.map(String))
    const barePort = Number(await bare.line())
    const load = generator(workshop)
    const figures: Figure[] = []
    for (const [at, question] of questions.entries()) {
      const ours = aimAt(served, question)
      const raw = { port: barePort, path: `/${at}`, expect: 200, pid: bare.pid }
      figures.push(await race(question.name, load, { ours, raw }, effort))
    }
    await Promise.all([served.child.stop(), bare.stop()])
    workshop.removeFolder(folder)
    return figures
  },
}

function aimAt({ port, token, child }: Served, { path, withToken, expect }: Question): Aim {
  return {
    port,
    path,
    expect,
    pid: child.pid,
    ...(withToken ? { headers: { authorization: `Bearer ${token}` } } : {}),
  }
}

async function bodyBytes(served: Served, question: Question): Promise<number> {
  const { port, path, headers = {}, expect } = aimAt(served, question)
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
  if (response.status !== expect) throw new Error(`${path} answered ${response.status}, not ${expect}`)
  return (await response.arrayBuffer()).byteLength
}

export async function race(
  name: string,
  load: Generator,
  aims: { readonly ours: Aim; readonly raw: Aim },
  { rounds, roundMs }: Pick<Effort, 'rounds' | 'roundMs'>,
  target: Target = TARGET,
): Promise<Figure> {
  const loads: { ours: Load[]; raw: Load[] } = { ours: [], raw: [] }
  const turn = (who: 'ours' | 'raw') => async () => {
    const seen = await load.fire(aims[who], SLICE_MS)
    loads[who].push(seen)
    return seen.perSecond
  }
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const pairs = await inTurn(rounds * slices, { ours: turn('ours'), raw: turn('raw') })
  const notes = [
    `${load.name}, ${CONNECTIONS} connections; p50/p99 ours ${latency(loads.ours)} ms, raw ${latency(loads.raw)} ms`,
    ...costNote(loads.ours, loads.raw),
  ]
  return compared({ name, unit: 'requests/s', target, notes }, roundsOf(pairs, slices))
}

const middle = (values: readonly number[]): number => spread(values).median

function latency(loads: readonly Load[]): string {
  return `${amount(middle(loads.map(({ p50Ms }) => p50Ms)))}/${amount(middle(loads.map(({ p99Ms }) => p99Ms)))}`
}

function costNote(ours: readonly Load[], raw: readonly Load[]): string[] {
  const cost = (loads: readonly Load[]): number =>
    middle(loads.map(({ cpuMicros }) => cpuMicros ?? Number.NaN))
  const [own, bare] = [cost(ours), cost(raw)]
  if (Number.isNaN(own) || Number.isNaN(bare)) return []
  return [
    `processor time a request: ours ${amount(own)} µs, raw ${amount(bare)} µs, raw/ours ${amount(bare / own)}`,
  ]
}

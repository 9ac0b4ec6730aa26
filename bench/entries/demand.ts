/**
 * What it costs when a supervisor asks whether there is work, with a short queue and with a long one.
 *
 * The one worker is enrolled and holds a run, so the rest waits. Every request proves its credential. Beside it the
 * barest server answers with as many bytes.
 */

import { type OurYard, ourYard } from '../bench-hosts.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, roundsOf, spread } from '../figures.ts'
import { type Aim, CONNECTIONS, type Generator, generator, type Load } from '../load.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

/** The shortest that wrk can count. */
const SLICE_MS = 1_000
const QUEUES = { short: 10, long: 10_000 } as const

export const demand: Entry = {
  name: 'demand',
  about: 'demand requests/s, authenticated, short and long queue / a bare uWebSockets.js server',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const yards = {
      short: await ourYard(workshop, { waiting: QUEUES.short + 1 }),
      long: await ourYard(workshop, { waiting: QUEUES.long + 1 }),
    }
    const aims = { short: await aimAt(yards.short), long: await aimAt(yards.long) }
    const body = await bodyBytes(aims.short)
    const bare = workshop.script('bench/raw/hello.ts', String(body))
    const raw: Aim = { port: Number(await bare.line()), path: '/0', expect: 200, pid: bare.pid }
    const figures = await race(generator(workshop), { ...aims, raw }, effort)
    for (const yard of Object.values(yards)) await yard.leave()
    await bare.stop()
    return figures
  },
}

async function aimAt({ crew, child, port }: OurYard): Promise<Aim> {
  const [member] = await crew.enroll(1, 1)
  if (member === undefined) throw new Error('the worker did not come')
  await crew.hold(1)
  const headers = { authorization: `Bearer ${member.credential}` }
  return {
    port,
    path: `/api/worker/demand?workerId=${member.workerId}`,
    headers,
    expect: 200,
    pid: child.pid,
  }
}

async function bodyBytes({ port, path, headers = {} }: Aim): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
  if (response.status !== 200) throw new Error(`demand answered ${response.status}: ${await response.text()}`)
  return (await response.arrayBuffer()).byteLength
}

async function race(
  load: Generator,
  aims: Readonly<Record<'short' | 'long' | 'raw', Aim>>,
  { rounds, roundMs }: Effort,
): Promise<Figure[]> {
  const loads = { short: [] as Load[], long: [] as Load[], raw: [] as Load[] }
  const turn = (who: keyof typeof aims) => async () => {
    const seen = await load.fire(aims[who], SLICE_MS)
    loads[who].push(seen)
    return seen.perSecond
  }
  const slices = Math.max(1, Math.round(roundMs / SLICE_MS))
  const seen = await inTurn(rounds * slices, { short: turn('short'), long: turn('long'), raw: turn('raw') })
  const cost = (who: keyof typeof aims): string =>
    `${who} ${amount(spread(loads[who].map(({ cpuMicros }) => cpuMicros ?? Number.NaN)).median)} µs`
  const notes = [
    `${load.name}, ${CONNECTIONS} connections; processor time a request: ${cost('short')}, ${cost('long')}, ${cost('raw')}`,
  ]
  const pairs = (ours: 'short' | 'long', raw: 'short' | 'raw') =>
    roundsOf(
      seen.map((slice) => ({ ours: slice[ours], raw: slice[raw] })),
      slices,
    )
  const atLeast = (bound: number) => ({ of: 'ratio', is: 'at least', bound }) as const
  return [
    compared(
      { name: `demand, ${QUEUES.short} queued`, unit: 'requests/s', target: atLeast(0.7), notes },
      pairs('short', 'raw'),
    ),
    compared(
      { name: `demand, ${amount(QUEUES.long)} queued`, unit: 'requests/s', target: atLeast(0.7) },
      pairs('long', 'raw'),
    ),
    compared(
      { name: 'demand, long queue / short', unit: 'requests/s', target: atLeast(0.95) },
      pairs('long', 'short'),
    ),
  ]
}

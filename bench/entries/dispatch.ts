/**
 * Measures the shortest wait of a run: from the request for it until a free worker has its dispatch.
 *
 * Run and lease become durable in between. `idle`: the host rests before each request and has finished its
 * postponed work. `in a row`: each request follows the end of the previous run, while the host still moves earlier
 * events into files. The floor is one request, one durable put and one frame without any decision.
 */
import { type BenchHost, startBareHost } from '../bench-hosts.ts'
import { type Effort, type Entry, measureInTurn } from '../entry.ts'
import { compareFigure, type Figure } from '../figures.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'

export const DISPATCH_TICKETS = 50
/** Requests per round, and the pause before the next one. */
const IDLE = { count: 8, countQuick: 5, restMs: 400 } as const
const CONSECUTIVE = { count: 80, countQuick: 40, restMs: 3 } as const
const TARGET = { of: 'ratio', is: 'at most', bound: 1.3 } as const

export const dispatch: Entry = {
  name: 'dispatch',
  about: 'ms from asking for a run until its worker holds it / one durable put and a frame',
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await startHostWithTickets(resources, {}, DISPATCH_TICKETS)
    const raw = await startBareHost(resources, 'bare-floor')
    for (const { workerLoad } of [ours, raw]) await workerLoad.enroll(1, 1)
    const figures = [
      ...(await compareDispatch('idle', IDLE, { ours, raw }, effort)),
      ...(await compareDispatch('in a row', CONSECUTIVE, { ours, raw }, effort)),
    ]
    for (const host of [ours, raw]) await host.stop()
    return figures
  },
}

async function compareDispatch(
  name: 'idle' | 'in a row',
  { count, countQuick, restMs }: typeof IDLE | typeof CONSECUTIVE,
  hosts: Readonly<Record<'ours' | 'raw', BenchHost>>,
  { quick, rounds }: Effort,
): Promise<Figure[]> {
  const perRound = quick ? countQuick : count
  const seen = { ours: [] as DispatchLatency[], raw: [] as DispatchLatency[] }
  const measureOnce = (who: 'ours' | 'raw') => async () => {
    const latency = await measureLatency(hosts[who], perRound, restMs)
    seen[who].push(latency)
    return latency.p50
  }
  await measureInTurn(rounds, { ours: measureOnce('ours'), raw: measureOnce('raw') })
  // `measureInTurn` discards the first round as a warm-up.
  const pairs = (part: keyof DispatchLatency) =>
    seen.ours.slice(1).map((each, at) => ({ ours: each[part], raw: seen.raw[at + 1]?.[part] ?? Number.NaN }))
  const notes = [`${perRound} a round, ${restMs} ms apart`]
  const p50 = { name: `dispatch, ${name}, p50`, unit: 'ms', notes }
  return [
    compareFigure(name === 'idle' ? { ...p50, target: TARGET } : p50, pairs('p50')),
    compareFigure(
      { name: `dispatch, ${name}, ${name === 'idle' ? 'longest' : 'p99'}`, unit: 'ms' },
      pairs('p99'),
    ),
  ]
}

interface DispatchLatency {
  readonly p50: number
  readonly p99: number
}

export async function measureLatency(
  { workerLoad, child }: BenchHost,
  count: number,
  restMs: number,
): Promise<DispatchLatency> {
  const waits = [...(await workerLoad.measureDispatches(count, DISPATCH_TICKETS, restMs))].sort(
    (a, b) => a - b,
  )
  const at = (part: number): number => waits[Math.floor(waits.length * part)] ?? Number.NaN
  const seen = { p50: at(0.5), p99: at(0.99) }
  await waitUntilIdle(child.pid)
  return seen
}

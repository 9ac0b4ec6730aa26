/**
 * Measures the shortest wait of a run: from the request for it until a free worker has its dispatch.
 *
 * Run and lease become durable in between. `idle`: the host rests before each request and has finished its
 * postponed work. `in a row`: each request follows the end of the previous run, while the host still moves earlier
 * events into files. The floor is one request, one durable put and one frame without any decision. A
 * peer that is installed takes a job with as many bytes, and a worker of its own receives it.
 */
import { type BenchHost, startBareHost } from '../bench-hosts.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareFigure, compareMeasurements, type Figure, type Measurement } from '../figures.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { type PeerHost, startPeerHost } from '../peer-host.ts'
import { isInstalled, PEERS } from '../peers/registry.ts'
import { cpuMsOfTree, waitForRest } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'

export const DISPATCH_TICKETS = 50
/** Requests per round, and the pause before the next one: when idle, longer than events wait for their files. */
const IDLE = { count: 6, countQuick: 3, restMs: 1_300 } as const
const CONSECUTIVE = { count: 80, countQuick: 40, restMs: 3 } as const
const TARGET = { of: 'ratio', is: 'at most', bound: 1.3 } as const

export const dispatch: Entry = {
  name: 'dispatch',
  about: 'ms from asking for a run until its worker holds it / one durable put and a frame, and peers',
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await startHostWithTickets(resources, {}, DISPATCH_TICKETS)
    const raw = await startBareHost(resources, 'bare-floor')
    for (const { workerLoad } of [ours, raw]) await workerLoad.enroll(1, 1)
    const peers: PeerHost[] = []
    for (const peer of PEERS.filter(isInstalled)) peers.push(await startPeerHost(resources, peer, 1, 1))
    const contestants = {
      ours: (count: number, restMs: number) => measureLatency(ours, count, restMs),
      raw: (count: number, restMs: number) => measureLatency(raw, count, restMs),
      ...Object.fromEntries(peers.map((peer) => [peer.name, measureJobsOf(peer)])),
    }
    const { raw: floor, ours: product } = contestants
    const figures = [
      ...(await compareDispatch('idle', IDLE, contestants, effort)),
      ...(await compareDispatch('in a row', CONSECUTIVE, { ours: product, raw: floor }, effort)),
    ]
    for (const each of [ours, raw, ...peers]) await each.stop()
    return figures
  },
}

type MeasureDispatches = (count: number, restMs: number) => Promise<DispatchLatency>
type DispatchContestants = Readonly<Record<'ours' | 'raw', MeasureDispatches>> &
  Readonly<Record<string, MeasureDispatches>>

async function compareDispatch(
  name: 'idle' | 'in a row',
  { count, countQuick, restMs }: typeof IDLE | typeof CONSECUTIVE,
  contestants: DispatchContestants,
  { quick, rounds }: Effort,
): Promise<Figure[]> {
  const perRound = quick ? countQuick : count
  const measures = Object.entries(contestants).map(([who, measure]) => {
    const measureOnce = async () => {
      const latency = await measure(perRound, restMs)
      return { ...latency, value: latency.p50 }
    }
    return [who, measureOnce] as const
  })
  const measured = await measureWhenSteady<string, DispatchRound>(rounds, Object.fromEntries(measures))
  const peers = Object.keys(contestants).filter((who) => who !== 'ours' && who !== 'raw')
  const beside = (who: string) =>
    measured.map((round) => ({ ours: round.ours as DispatchRound, raw: round[who] as DispatchRound }))
  const notes = [`${perRound} a round, ${restMs} ms apart; processor time until at rest`]
  const p50 = { name: `dispatch, ${name}, p50`, unit: 'ms', notes }
  return [
    compareMeasurements(name === 'idle' ? { ...p50, target: TARGET } : p50, beside('raw')),
    compareFigure(
      { name: `dispatch, ${name}, ${name === 'idle' ? 'longest' : 'p99'}`, unit: 'ms' },
      beside('raw').map(({ ours, raw }) => ({ ours: ours.p99, raw: raw.p99 })),
    ),
    ...peers.map((who) =>
      compareMeasurements({ name: `dispatch, ${name}, p50 / ${who}`, unit: 'ms' }, beside(who)),
    ),
  ]
}

interface DispatchLatency {
  readonly p50: number
  readonly p99: number
  /** Processor time from a request until the host rests. */
  readonly cpuMicros: number
}

interface DispatchRound extends DispatchLatency, Measurement {}

export function measureLatency(
  { workerLoad, child }: BenchHost,
  count: number,
  restMs: number,
): Promise<DispatchLatency> {
  return measureWaits(child.pid, count, () => workerLoad.measureDispatches(count, DISPATCH_TICKETS, restMs))
}

const measureJobsOf =
  ({ pid, measureDispatches }: PeerHost): MeasureDispatches =>
  (count, restMs) =>
    measureWaits(pid, count, () => measureDispatches(count, restMs))

async function measureWaits(
  pid: number,
  count: number,
  measure: () => Promise<readonly number[]>,
): Promise<DispatchLatency> {
  const before = cpuMsOfTree(pid) ?? Number.NaN
  const waits = [...(await measure())].sort((a, b) => a - b)
  const at = (part: number): number => waits[Math.floor(waits.length * part)] ?? Number.NaN
  const spent = (await waitForRest(pid)).cpu - before
  return { p50: at(0.5), p99: at(0.99), cpuMicros: (spent * 1000) / count }
}

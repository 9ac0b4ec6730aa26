/**
 * Measures full cycles per second: queued, lease on disk, dispatched, accepted, completed, on disk, acknowledged.
 *
 * A bare server performs the same durable steps with the same frames for the same simulated workers. Runs are
 * stored before the host starts, so creating them is not measured, except in the cycles that are `requested`: those
 * runs are requested in the round. A host that is not measured holds a run in every slot and rests. Postponed work
 * ends before the other's round; its processor time counts, its duration does not.
 */
import { type BenchHost, startBareHost, startProductHost } from '../bench-hosts.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Effort, type Entry, measureWhenSteady, type WarmUp } from '../entry.ts'
import { compareMeasurements, type Figure, type Measurement, spread, type Target } from '../figures.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { cpuMsOfTree } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WARM_UP_ROUNDS_MAX } from '../warm-up.ts'

export const WORKERS = 8
export const SLOTS = 8
/** For requested runs, on which workers work some milliseconds: so many that this does not limit the rate. */
export const REQUESTED_SLOTS = 64
const TARGET = { of: 'ratio', is: 'at least', bound: 1 } as const

interface CycleLoad {
  readonly events: number
  readonly count: number
  readonly countQuick: number
  readonly target?: Target
}

const LOADS: readonly CycleLoad[] = [
  { events: 0, count: 1_500, countQuick: 1_000, target: TARGET },
  { events: 20, count: 750, countQuick: 400 },
]

const REQUESTED = { events: 20, count: 1_000, countQuick: 500 } as const

export const cycles: Entry = {
  name: 'cycles',
  about: 'runs from queued to acknowledged a second / uWebSockets.js and lmdb by hand',
  async measure(effort, resources) {
    await buildProduct(resources)
    const hosts = await startBothHosts(resources, countWaitingRuns(effort))
    const figures: Figure[] = []
    for (const load of LOADS) figures.push(await compareCycles(hosts, load, effort))
    await Promise.all([hosts.ours.stop(), hosts.raw.stop()])
    return [...figures, await compareRequestedCycles(resources, effort)]
  },
}

type CycleHosts = Readonly<Record<'ours' | 'raw', BenchHost>>

/** Includes the discarded rounds, and the runs that are held at the end. */
function countWaitingRuns(effort: Effort): number {
  const counts = LOADS.map((load) => cycleCount(load, effort) * (effort.rounds + WARM_UP_ROUNDS_MAX))
  return counts.reduce((sum, count) => sum + count, WORKERS * SLOTS)
}

const cycleCount = (load: CycleLoad, { quick }: Effort): number => (quick ? load.countQuick : load.count)

async function startBothHosts(resources: BenchResources, waiting: number): Promise<CycleHosts> {
  const hosts = {
    ours: await startProductHost(resources, { waiting }),
    raw: await startBareHost(resources, 'bare-cycles'),
  }
  for (const { workerLoad } of Object.values(hosts)) await workerLoad.enroll(WORKERS, SLOTS)
  return hosts
}

async function compareCycles(hosts: CycleHosts, load: CycleLoad, effort: Effort): Promise<Figure> {
  const count = cycleCount(load, effort)
  const costs = { ours: [] as CycleCosts[], raw: [] as CycleCosts[] }
  const measureOnce = (who: 'ours' | 'raw') => async () => {
    const { perSecond, ...rest } = await measureCycles(hosts[who], count, load.events)
    costs[who].push(rest)
    return { value: perSecond, cpuMicros: rest.micros + rest.laterMicros }
  }
  const rounds = await measureWhenSteady(
    effort.rounds,
    { ours: measureOnce('ours'), raw: measureOnce('raw') },
    warmUpOf(hosts, (host) => completeCycles(host, count, load.events)),
  )
  const name = `cycles, ${load.events} events, ${WORKERS} × ${SLOTS}`
  const label = { name, unit: 'a second', notes: notesOf(costs) }
  return compareMeasurements(load.target === undefined ? label : { ...label, target: load.target }, rounds)
}

/** A run is enqueued, executed for some milliseconds and completed within the round. */
async function compareRequestedCycles(resources: BenchResources, { quick, rounds }: Effort): Promise<Figure> {
  const count = quick ? REQUESTED.countQuick : REQUESTED.count
  const hosts = {
    ours: await startHostWithTickets(resources, {}, count),
    raw: await startBareHost(resources, 'bare-queue'),
  }
  for (const { workerLoad } of Object.values(hosts)) await workerLoad.enroll(WORKERS, REQUESTED_SLOTS)
  const requestCycles = async ({ child, workerLoad }: BenchHost, rest: () => Promise<unknown>) => {
    const before = cpuMsOfTree(child.pid) ?? Number.NaN
    const { ms } = await workerLoad.enqueueRuns(count, REQUESTED.events, count)
    await rest()
    const spent = (cpuMsOfTree(child.pid) ?? Number.NaN) - before
    return { value: count / (ms / 1000), cpuMicros: (spent * 1000) / count }
  }
  const { ours, raw } = hosts
  const measured = await measureWhenSteady(
    rounds,
    { ours: () => requestCycles(ours, ours.waitForRest), raw: () => requestCycles(raw, raw.waitForRest) },
    warmUpOf(hosts, (host) => requestCycles(host, async () => {})),
  )
  for (const host of Object.values(hosts)) await host.stop()
  const name = `cycles, requested, ${REQUESTED.events} events, ${WORKERS} × ${REQUESTED_SLOTS}`
  return compareMeasurements({ name, unit: 'a second' }, measured)
}

/** The rounds of a warm-up do not wait for the rest of a host, which takes as long as a round. */
function warmUpOf(
  { ours, raw }: CycleHosts,
  run: (host: BenchHost) => Promise<Measurement>,
): WarmUp<'ours' | 'raw'> {
  return {
    contestants: { ours: () => run(ours), raw: () => run(raw) },
    rest: () => Promise.all([ours.waitForRest(), raw.waitForRest()]),
  }
}

export interface CycleCosts {
  /** The host's processor time per cycle, in microseconds. */
  readonly micros: number
  /** The host's processor time per cycle after the last acknowledgement, in microseconds. */
  readonly laterMicros: number
  /** Processor time divided by wall time. */
  readonly host: number
  readonly workerLoad: number
}

export async function measureCycles(
  host: BenchHost,
  count: number,
  events: number,
  slots = WORKERS * SLOTS,
): Promise<CycleCosts & { readonly perSecond: number }> {
  const { value, cpuMicros, ms, cpuAtEnd, loadMs } = await completeCycles(host, count, events, slots)
  const laterMs = (await host.waitForRest()).cpu - cpuAtEnd
  return {
    perSecond: value,
    micros: cpuMicros,
    laterMicros: (laterMs * 1000) / count,
    host: (cpuMicros * count) / 1000 / ms,
    workerLoad: loadMs / ms,
  }
}

interface CompletedCycles extends Measurement {
  readonly ms: number
  /** The host's processor time so far, in milliseconds. */
  readonly cpuAtEnd: number
  /** The processor time of the workers, in milliseconds. */
  readonly loadMs: number
}

/** Ends with the last acknowledgement. */
async function completeCycles(
  { child, workerLoad }: BenchHost,
  count: number,
  events: number,
  slots = WORKERS * SLOTS,
): Promise<CompletedCycles> {
  await workerLoad.hold(slots)
  const before = cpuMsOfTree(child.pid) ?? Number.NaN
  const { ms, cpuMs: loadMs } = await workerLoad.completeRuns(count, events)
  const cpuAtEnd = cpuMsOfTree(child.pid) ?? Number.NaN
  return {
    value: count / (ms / 1000),
    cpuMicros: ((cpuAtEnd - before) * 1000) / count,
    ms,
    cpuAtEnd,
    loadMs,
  }
}

function notesOf(costs: Readonly<Record<'ours' | 'raw', readonly CycleCosts[]>>): string[] {
  const middle = (who: 'ours' | 'raw', what: keyof CycleCosts): number =>
    spread(costs[who].map((each) => each[what])).median
  const share = (who: 'ours' | 'raw'): string =>
    `${who} ${amount(100 * middle(who, 'host'))} % of a core, its workers ${amount(100 * middle(who, 'workerLoad'))} %`
  return [
    `processor time after the last acknowledgement, a cycle: ours ${amount(middle('ours', 'laterMicros'))} µs, raw ${amount(middle('raw', 'laterMicros'))} µs`,
    `busy: ${share('ours')}; ${share('raw')}`,
  ]
}

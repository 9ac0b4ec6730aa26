/**
 * Measures thousands of runs in a row, from the request for each until nothing is left to do: the clock and the
 * processor time stop when the host rests, so postponed work counts.
 *
 * Many producers request runs while workers execute them. A worker waits some milliseconds between acceptance and
 * completion, so hardly any commit contains both. The bare server does the same durable steps. Peers that are installed get
 * as many jobs with as many bytes; they keep neither an acceptance nor a result.
 */
import { type BenchHost, startBareHost } from '../bench-hosts.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { compareMeasurements, type Figure, spread, type Target } from '../figures.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { startPeerHost } from '../peer-host.ts'
import type { PeerName } from '../peers/peer.ts'
import { describeMissingPeers, isInstalled, PEERS } from '../peers/registry.ts'
import { cpuMsOfTree, waitForRest } from '../process-usage.ts'
import type { EnqueueTiming } from '../raw/worker-load-protocol.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { REQUESTED_SLOTS, WORKERS } from './cycles.ts'

const RUNS = 20_000
const RUNS_QUICK = 3_000
/** Rounds are long. */
const ROUNDS_MAX = 2
/** The most that a folder may contain; later runs take them again. */
const TICKETS_MAX = 10_000
const WARM_UP_RUNS = 1_000
const PEER_TARGETS: Readonly<Record<PeerName, Target>> = {
  RabbitMQ: { of: 'ratio', is: 'at least', bound: 0.5 },
  beanstalkd: { of: 'ratio', is: 'at least', bound: 1 },
}

/** A process that gets runs or jobs from its own load. */
interface Contestant {
  readonly pid: number
  run(count: number): Promise<EnqueueTiming>
  stop(): Promise<void>
}

interface SustainedCosts {
  /** Runs a second until the host rests. */
  readonly rate: number
  /** Runs a second until the last acknowledgement. */
  readonly liveRate: number
  /** Runs a second until the last one was confirmed to its producer. */
  readonly enqueueRate: number
  /** The host's processor time a run, in microseconds. */
  readonly micros: number
}

type CostsByName = ReadonlyMap<string, SustainedCosts[]>

export const sustained: Entry = {
  name: 'sustained',
  about: '20,000 runs requested and executed until nothing is left to do / by hand, and peers',
  async measure({ rounds, quick }, resources) {
    await buildProduct(resources)
    const count = quick ? RUNS_QUICK : RUNS
    const contestants = await startContestants(resources, Math.min(count, TICKETS_MAX))
    const costs = new Map(Object.keys(contestants).map((name) => [name, [] as SustainedCosts[]]))
    for (const each of Object.values(contestants)) await measureUntilRest(each, WARM_UP_RUNS)
    const measures = Object.entries(contestants).map(([name, each]) => {
      const measureOnce = async (): Promise<number> => {
        const measured = await measureUntilRest(each, count)
        costs.get(name)?.push(measured)
        return measured.rate
      }
      return [name, measureOnce] as const
    })
    await measureInTurn(Math.min(rounds, ROUNDS_MAX), Object.fromEntries(measures), false)
    for (const each of Object.values(contestants)) await each.stop()
    return figuresOf(count, costs)
  },
}

async function startContestants(
  resources: BenchResources,
  tickets: number,
): Promise<Readonly<Record<string, Contestant>>> {
  const contestants: Record<string, Contestant> = {
    ours: await enroll(await startHostWithTickets(resources, {}, tickets), tickets),
    raw: await enroll(await startBareHost(resources, 'bare-queue'), tickets),
  }
  for (const peer of PEERS.filter(isInstalled)) {
    const { pid, runJobs, stop } = await startPeerHost(resources, peer, WORKERS, REQUESTED_SLOTS)
    contestants[peer.name] = { pid, run: runJobs, stop }
  }
  return contestants
}

async function enroll({ child, workerLoad, stop }: BenchHost, tickets: number): Promise<Contestant> {
  await workerLoad.enroll(WORKERS, REQUESTED_SLOTS)
  return { pid: child.pid, run: (count) => workerLoad.enqueueRuns(count, 0, tickets), stop }
}

async function measureUntilRest({ pid, run }: Contestant, count: number): Promise<SustainedCosts> {
  const before = cpuMsOfTree(pid) ?? Number.NaN
  const began = performance.now()
  const { ms, enqueuedMs } = await run(count)
  const rest = await waitForRest(pid)
  return {
    rate: count / ((rest.at - began) / 1_000),
    liveRate: count / (ms / 1_000),
    enqueueRate: count / (enqueuedMs / 1_000),
    micros: ((rest.cpu - before) * 1_000) / count,
  }
}

// ---- figures -----------------------------------------------------------------------------------------------------

function figuresOf(count: number, costs: CostsByName): Figure[] {
  const peers = PEERS.map(({ name }) => name).filter((name) => costs.has(name))
  return [...figuresByHand(count, costs), ...peers.flatMap((name) => figuresOfPeer(count, costs, name))]
}

function figuresByHand(count: number, costs: CostsByName): Figure[] {
  const rates = (who: string): string =>
    `${who} ${middle(costs, who, 'liveRate')} a second (requested: ${middle(costs, who, 'enqueueRate')})`
  const label = {
    name: `${count} runs in a row, until at rest`,
    unit: 'a second',
    target: { of: 'processor ratio', is: 'at least', bound: 0.5 },
    notes: [`until the last acknowledgement: ${rates('ours')}, ${rates('raw')}`, ...describeMissingPeers()],
  } as const
  return [compareMeasurements(label, roundsOf(costs, 'raw', 'rate'))]
}

function figuresOfPeer(count: number, costs: CostsByName, peer: PeerName): Figure[] {
  const notes = [
    `ours until at rest, ${peer} until the last acknowledgement (requested: ${middle(costs, peer, 'enqueueRate')} a second; at rest: ${middle(costs, peer, 'rate')} a second)`,
  ]
  const label = {
    name: `${count} runs in a row / ${peer}`,
    unit: 'a second',
    target: PEER_TARGETS[peer],
    notes,
  }
  return [compareMeasurements(label, roundsOf(costs, peer, 'liveRate'))]
}

function roundsOf(costs: CostsByName, rival: string, part: 'rate' | 'liveRate') {
  const rivals = costs.get(rival) ?? []
  return (costs.get('ours') ?? []).map((ours, at) => ({
    ours: { value: ours.rate, cpuMicros: ours.micros },
    raw: { value: rivals[at]?.[part] ?? Number.NaN, cpuMicros: rivals[at]?.micros ?? Number.NaN },
  }))
}

function middle(costs: CostsByName, who: string, part: keyof SustainedCosts): string {
  return amount(spread((costs.get(who) ?? []).map((each) => each[part])).median)
}

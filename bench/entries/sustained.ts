/**
 * Measures thousands of runs in a row, from the request for each until nothing is left to do: the clock and the
 * processor time stop when the host rests, so postponed work counts.
 *
 * Many producers request runs while workers execute them. A worker waits a few milliseconds between acceptance and
 * completion, so no commit contains both. The bare server does the same durable steps.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchHost, startBareHost } from '../bench-hosts.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { compareFigure, type Figure, spread } from '../figures.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { cpuMs, TICK_MS } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { SLOTS, WORKERS } from './cycles.ts'

const RUNS = 20_000
const RUNS_QUICK = 3_000
/** Rounds are long. */
const ROUNDS_MAX = 2
/** The most that a folder may contain; later runs take them again. */
const TICKETS_MAX = 10_000
const WARM_UP_RUNS = 1_000
const REST_CHECK_MS = 100
const REST_CHECKS = 4
const REST_MS_MAX = 300_000

interface SustainedCosts {
  /** Runs a second until the host rests. */
  readonly rate: number
  /** Runs a second until the last acknowledgement. */
  readonly liveRate: number
  /** The host's processor time a run, in microseconds. */
  readonly micros: number
}

export const sustained: Entry = {
  name: 'sustained',
  about: '20,000 runs requested and executed until nothing is left to do / uWebSockets.js and lmdb by hand',
  async measure({ rounds, quick }, resources) {
    await buildProduct(resources)
    const count = quick ? RUNS_QUICK : RUNS
    const turns = Math.min(rounds, ROUNDS_MAX)
    const tickets = Math.min(count, TICKETS_MAX)
    const hosts = {
      ours: await startHostWithTickets(resources, {}, tickets),
      raw: await startBareHost(resources, 'bare-queue'),
    }
    const costs = { ours: [] as SustainedCosts[], raw: [] as SustainedCosts[] }
    for (const { workerLoad } of Object.values(hosts)) await workerLoad.enroll(WORKERS, SLOTS)
    for (const host of Object.values(hosts)) await measureUntilRest(host, WARM_UP_RUNS, tickets)
    const measureOnce = (who: 'ours' | 'raw') => async () => {
      const measured = await measureUntilRest(hosts[who], count, tickets)
      costs[who].push(measured)
      return measured.rate
    }
    await measureInTurn(turns, { ours: measureOnce('ours'), raw: measureOnce('raw') }, false)
    for (const host of Object.values(hosts)) await host.stop()
    return figuresOf(count, costs)
  },
}

async function measureUntilRest(
  { child, workerLoad }: BenchHost,
  count: number,
  tickets: number,
): Promise<SustainedCosts> {
  const before = cpuMs(child.pid) ?? Number.NaN
  const began = performance.now()
  const { ms } = await workerLoad.enqueueRuns(count, 0, tickets)
  const rest = await waitForRest(child.pid)
  return {
    rate: count / ((rest.at - began) / 1_000),
    liveRate: count / (ms / 1_000),
    micros: ((rest.cpu - before) * 1_000) / count,
  }
}

/** The instant from which the process has used almost no processor time, and how much it had used until then. */
async function waitForRest(pid: number): Promise<{ readonly at: number; readonly cpu: number }> {
  const end = performance.now() + REST_MS_MAX
  let rest = { at: performance.now(), cpu: cpuMs(pid) ?? Number.NaN }
  for (let quiet = 0; quiet < REST_CHECKS; quiet++) {
    await sleep(REST_CHECK_MS)
    const cpu = cpuMs(pid) ?? Number.NaN
    if (cpu - rest.cpu <= TICK_MS) continue
    if (performance.now() > end) throw new Error(`the host did not rest within ${REST_MS_MAX} ms`)
    rest = { at: performance.now(), cpu }
    quiet = -1
  }
  return rest
}

function figuresOf(
  count: number,
  costs: Readonly<Record<'ours' | 'raw', readonly SustainedCosts[]>>,
): Figure[] {
  const pairsOf = (part: 'rate' | 'micros') =>
    costs.ours.map((ours, at) => ({ ours: ours[part], raw: costs.raw[at]?.[part] ?? Number.NaN }))
  const live = (who: 'ours' | 'raw'): string =>
    amount(spread(costs[who].map(({ liveRate }) => liveRate)).median)
  const name = `${count} runs in a row`
  return [
    compareFigure(
      {
        name: `${name}, until at rest`,
        unit: 'a second',
        notes: [`until the last acknowledgement: ours ${live('ours')} a second, raw ${live('raw')}`],
      },
      pairsOf('rate'),
    ),
    compareFigure(
      {
        name: `${name}, processor time of each`,
        unit: 'µs',
        target: { of: 'ratio', is: 'at most', bound: 2 },
        notes: ['all threads of the host, until it rests'],
      },
      pairsOf('micros'),
    ),
  ]
}

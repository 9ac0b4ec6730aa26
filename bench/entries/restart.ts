/**
 * Measures the restart of a host with many stored runs and live leases: from starting the process to the first
 * healthy answer.
 *
 * Every start finds held leases with absent workers and ends before they expire, so the next start finds the same.
 * The floor is the same program with an empty data directory.
 */
import { createDataDir, WORKING_CONFIG } from '../bench-hosts.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { compareMeasurements, type Figure, type Measurement, spread } from '../figures.ts'
import { HISTORY_RUNS } from '../history.ts'
import { cpuMs } from '../process-usage.ts'
import { buildProduct, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const LEASES = 1_000
/** So many take minutes to store, so a quick bench leaves them out. */
const LONG_HISTORY_RUNS = 1_000_000
const BOUND_MS = { history: 2_000, longHistory: 5_000 } as const

export const restart: Entry = {
  name: 'restart',
  about: `start to first healthy answer with ${HISTORY_RUNS / 1000}k and 1m runs and ${LEASES} live leases / empty`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const folders: Record<string, string> = {
      empty: await createDataDir(resources, {}),
      history: await createDataDir(resources, { finished: 'history', held: LEASES }),
      ...(effort.quick ? {} : { longHistory: await createLongHistory(resources) }),
    }
    const contestants = Object.entries(folders).map(
      ([name, folder]) =>
        [name, () => measureRestart(resources, folder, name === 'empty' ? 0 : LEASES)] as const,
    )
    const rounds = await measureInTurn<string, Measurement>(effort.rounds, Object.fromEntries(contestants))
    for (const folder of Object.values(folders)) resources.removeFolder(folder)
    const figures = [figureOf('history', HISTORY_RUNS, rounds)]
    return effort.quick ? figures : [...figures, figureOf('longHistory', LONG_HISTORY_RUNS, rounds)]
  },
}

function createLongHistory(resources: BenchResources): Promise<string> {
  console.error(`making a store with ${LONG_HISTORY_RUNS} finished runs …`)
  return createDataDir(resources, { finished: LONG_HISTORY_RUNS, held: LEASES })
}

function figureOf(
  name: keyof typeof BOUND_MS,
  runs: number,
  rounds: readonly Readonly<Record<string, Measurement>>[],
): Figure {
  const pairs = rounds.map((round) => ({
    ours: round[name] as Measurement,
    raw: round.empty as Measurement,
  }))
  const more = spread(pairs.map(({ ours, raw }) => ours.value - raw.value)).median
  return compareMeasurements(
    {
      name: `restart, ${runs / 1000}k runs, ${amount(LEASES)} leases`,
      unit: 'ms',
      target: { of: 'ours', is: 'at most', bound: BOUND_MS[name] },
      notes: [
        `raw: the product’s start with an empty data directory; runs and leases add ${amount(more)} ms`,
      ],
    },
    pairs,
  )
}

async function measureRestart(
  resources: BenchResources,
  folder: string,
  leases: number,
): Promise<Measurement> {
  const { child, healthyAfterMs, port, token } = await startHost(resources, folder, WORKING_CONFIG)
  const cpuMicros = (cpuMs(child.pid) ?? Number.NaN) * 1000
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/runs?status=running&limit=1`, { headers })
  const running = ((await answer.json()) as unknown[]).length
  await child.stop()
  if (running !== Math.min(1, leases)) throw new Error(`the host came back with ${running} running runs`)
  return { value: healthyAfterMs, cpuMicros }
}

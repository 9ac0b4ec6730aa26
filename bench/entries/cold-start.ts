/**
 * Measures the time from starting the process to the first healthy answer, with an empty and with an old data
 * directory.
 *
 * Every start is a new process; after the first round its files are in the system's memory. `node -e 0` is the
 * floor, because no Node program starts faster.
 */
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareMeasurements, type Measurement, spread } from '../figures.ts'
import { dataDirWithHistory, HISTORY_RUNS } from '../history.ts'
import { measureOwnWork } from '../own-work.ts'
import { cpuMsOfTree } from '../process-usage.ts'
import { buildProduct, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const PAST = `${HISTORY_RUNS / 1000}k runs`

export const coldStart: Entry = {
  name: 'cold-start',
  about: `start to first healthy answer, ${PAST} / empty`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const empty = resources.createFolder('empty')
    const old = await dataDirWithHistory(resources)
    const rounds = await measureInTurn(effort.rounds, {
      node: () => measureBareNode(resources),
      empty: () => measureStart(resources, empty),
      old: () => measureStart(resources, old),
    })
    for (const folder of [empty, old]) resources.removeFolder(folder)
    const floor = amount(spread(rounds.map(({ node }) => node.value)).median)
    return [
      compareMeasurements(
        {
          name: `cold start, ${PAST} / empty`,
          unit: 'ms',
          target: { of: 'ratio', is: 'at most', bound: 2 },
          notes: [`node -e 0: ${floor} ms`],
        },
        rounds.map((round) => ({ ours: round.old, raw: round.empty })),
      ),
      absoluteFigure(
        {
          name: `cold start, added by ${PAST}`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 1_000 },
        },
        rounds.map((round) => round.old.value - round.empty.value),
      ),
      compareMeasurements(
        { name: 'cold start, empty / node -e 0', unit: 'ms' },
        rounds.map((round) => ({ ours: round.empty, raw: round.node })),
      ),
    ]
  },
}

async function measureStart(resources: BenchResources, dataDir: string): Promise<Measurement> {
  const { child, healthyAfterMs } = await startHost(resources, dataDir)
  const spentMs = cpuMsOfTree(child.pid) ?? Number.NaN
  await child.stop()
  return { value: healthyAfterMs, cpuMicros: spentMs * 1_000 }
}

function measureBareNode(resources: BenchResources): Promise<Measurement> {
  return measureOwnWork(async () => void (await resources.start(process.execPath, ['-e', '0']).ended))
}

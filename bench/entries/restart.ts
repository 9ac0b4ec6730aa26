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
import { compareFigure, spread } from '../figures.ts'
import { HISTORY_RUNS } from '../history.ts'
import { buildProduct, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const LEASES = 1_000

export const restart: Entry = {
  name: 'restart',
  about: `start to first healthy answer with ${HISTORY_RUNS / 1000}k runs and ${LEASES} live leases / empty`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const folders = {
      empty: await createDataDir(resources, {}),
      full: await createDataDir(resources, { finished: 'history', held: LEASES }),
    }
    const rounds = await measureInTurn(effort.rounds, {
      full: () => measureRestart(resources, folders.full, LEASES),
      empty: () => measureRestart(resources, folders.empty, 0),
    })
    for (const folder of Object.values(folders)) resources.removeFolder(folder)
    const more = spread(rounds.map(({ full, empty }) => full - empty)).median
    return [
      compareFigure(
        {
          name: `restart, ${HISTORY_RUNS / 1000}k runs, ${amount(LEASES)} leases`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 2_000 },
          notes: [
            `raw: the product’s start with an empty data directory; runs and leases add ${amount(more)} ms`,
          ],
        },
        rounds.map(({ full, empty }) => ({ ours: full, raw: empty })),
      ),
    ]
  },
}

async function measureRestart(resources: BenchResources, folder: string, leases: number): Promise<number> {
  const { child, healthyAfterMs, port, token } = await startHost(resources, folder, WORKING_CONFIG)
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/runs?status=running&limit=1`, { headers })
  const running = ((await answer.json()) as unknown[]).length
  await child.stop()
  if (running !== Math.min(1, leases)) throw new Error(`the host came back with ${running} running runs`)
  return healthyAfterMs
}

/**
 * From starting the process to the first healthy answer, with nothing to remember and with a long past.
 *
 * Cold means a new process; the files are in the system's memory after the first turn. `node -e 0` is the floor:
 * nothing written for Node starts faster.
 */

import type { Workshop } from '../bench-resources.ts'
import { type Entry, inTurn } from '../entry.ts'
import { compared, measured, spread } from '../figures.ts'
import { dataDirWithHistory, HISTORY_RUNS } from '../history.ts'
import { buildProduct, serve } from '../served-host.ts'
import { amount } from '../table.ts'

const PAST = `${HISTORY_RUNS / 1000}k runs`

export const coldStart: Entry = {
  name: 'cold-start',
  about: `start to first healthy answer, ${PAST} / empty`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const empty = workshop.folder('empty')
    const old = await dataDirWithHistory(workshop)
    const rounds = await inTurn(effort.rounds, {
      node: () => bareNode(workshop),
      empty: () => start(workshop, empty),
      old: () => start(workshop, old),
    })
    for (const folder of [empty, old]) workshop.removeFolder(folder)
    const floor = amount(spread(rounds.map(({ node }) => node)).median)
    return [
      compared(
        {
          name: `cold start, ${PAST} / empty`,
          unit: 'ms',
          target: { of: 'ratio', is: 'at most', bound: 2 },
          notes: [`node -e 0: ${floor} ms`],
        },
        rounds.map((round) => ({ ours: round.old, raw: round.empty })),
      ),
      measured(
        {
          name: `cold start, what ${PAST} add`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 1_000 },
        },
        rounds.map((round) => round.old - round.empty),
      ),
      compared(
        { name: 'cold start, empty / node -e 0', unit: 'ms' },
        rounds.map((round) => ({ ours: round.empty, raw: round.node })),
      ),
    ]
  },
}

async function start(workshop: Workshop, dataDir: string): Promise<number> {
  const { child, healthyAfterMs } = await serve(workshop, dataDir)
  await child.stop()
  return healthyAfterMs
}

async function bareNode(workshop: Workshop): Promise<number> {
  const from = performance.now()
  await workshop.start(process.execPath, ['-e', '0']).ended
  return performance.now() - from
}

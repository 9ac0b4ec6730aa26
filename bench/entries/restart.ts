/**
 * A host that comes back with a long past and its hands full: from starting the process to the first healthy answer.
 *
 * Every start finds leases that are held, whose workers are away; it ends before their time does, so the next start
 * finds the same. The floor is the same program with nothing to remember.
 */

import { dataDirWith, WORKING } from '../bench-hosts.ts'
import type { Workshop } from '../bench-resources.ts'
import { type Entry, inTurn } from '../entry.ts'
import { compared, spread } from '../figures.ts'
import { HISTORY_RUNS } from '../history.ts'
import { buildProduct, serve } from '../served-host.ts'
import { amount } from '../table.ts'

const LEASES = 1_000

export const restart: Entry = {
  name: 'restart',
  about: `start to first healthy answer with ${HISTORY_RUNS / 1000}k runs and ${LEASES} live leases / empty`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const folders = {
      empty: await dataDirWith(workshop, {}),
      full: await dataDirWith(workshop, { finished: 'history', held: LEASES }),
    }
    const rounds = await inTurn(effort.rounds, {
      full: () => start(workshop, folders.full, LEASES),
      empty: () => start(workshop, folders.empty, 0),
    })
    for (const folder of Object.values(folders)) workshop.removeFolder(folder)
    const more = spread(rounds.map(({ full, empty }) => full - empty)).median
    return [
      compared(
        {
          name: `restart, ${HISTORY_RUNS / 1000}k runs, ${amount(LEASES)} leases`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 2_000 },
          notes: [`raw: our own start with nothing to remember; runs and leases add ${amount(more)} ms`],
        },
        rounds.map(({ full, empty }) => ({ ours: full, raw: empty })),
      ),
    ]
  },
}

async function start(workshop: Workshop, folder: string, leases: number): Promise<number> {
  const { child, healthyAfterMs, port, token } = await serve(workshop, folder, WORKING)
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/runs?status=running&limit=1`, { headers })
  const running = ((await answer.json()) as unknown[]).length
  await child.stop()
  if (running !== Math.min(1, leases)) throw new Error(`the host came back with ${running} running runs`)
  return healthyAfterMs
}

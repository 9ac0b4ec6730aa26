/**
 * Measures what a cycle costs with many workers and with few that have as many slots together.
 *
 * The rate falls with the number of sockets too, so the host's processor time a cycle is the figure that counts.
 */
import { startProductHost } from '../bench-hosts.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { compareFigure, type Figure, spread } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { type CycleCosts, measureCycles } from './cycles.ts'

const ALL_SLOTS = 1_000
const MANY = { workers: 1_000, slots: 1 } as const
const FEW = { workers: 20, slots: 50 } as const
const CYCLES = 2_000
const CYCLES_QUICK = 1_000

export const manyWorkers: Entry = {
  name: 'many-workers',
  about: 'processor time a cycle with 1,000 workers / 20 with as many slots together',
  async measure({ rounds, quick }, resources) {
    await buildProduct(resources)
    const count = quick ? CYCLES_QUICK : CYCLES
    const waiting = count * (rounds + 1) + ALL_SLOTS
    const hosts = {
      many: await startProductHost(resources, { waiting }),
      few: await startProductHost(resources, { waiting }),
    }
    await hosts.many.workerLoad.enroll(MANY.workers, MANY.slots)
    await hosts.few.workerLoad.enroll(FEW.workers, FEW.slots)
    const costs = { many: [] as CycleCosts[], few: [] as CycleCosts[] }
    const rates = { many: [] as number[], few: [] as number[] }
    const measureOnce = (who: 'many' | 'few') => async () => {
      const { perSecond, ...rest } = await measureCycles(hosts[who], count, 0, ALL_SLOTS)
      costs[who].push(rest)
      rates[who].push(perSecond)
      return rest.micros
    }
    const pairs = await measureInTurn(rounds, { many: measureOnce('many'), few: measureOnce('few') })
    for (const host of Object.values(hosts)) await host.stop()
    return [figureOf(pairs, rates)]
  },
}

function figureOf(
  pairs: readonly { readonly many: number; readonly few: number }[],
  rates: Readonly<Record<'many' | 'few', readonly number[]>>,
): Figure {
  const rate = (who: 'many' | 'few'): string => amount(spread(rates[who]).median)
  return compareFigure(
    {
      name: `a cycle, ${MANY.workers} workers / ${FEW.workers}`,
      unit: 'µs',
      target: { of: 'ratio', is: 'at most', bound: 1.1 },
      notes: [
        `processor time of the host, without what it postpones; ${rate('many')} and ${rate('few')} cycles a second`,
      ],
    },
    pairs.map(({ many, few }) => ({ ours: many, raw: few })),
  )
}

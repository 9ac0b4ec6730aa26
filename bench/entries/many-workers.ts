/**
 * Measures what a cycle costs with many workers and with few that have as many slots together.
 *
 * The rate falls with the number of sockets too, so the host's processor time a cycle is the figure that counts.
 */
import { startProductHost } from '../bench-hosts.ts'
import { type Entry, measureWhenSteady } from '../entry.ts'
import { absoluteFigure, compareMeasurements } from '../figures.ts'
import { longestTurnMs, TURN_TARGET } from '../longest-turn.ts'
import { buildProduct } from '../served-host.ts'
import { WARM_UP_ROUNDS_MAX } from '../warm-up.ts'
import { measureCycles } from './cycles.ts'

const ALL_SLOTS = 1_000
const SIZES = { many: { workers: 1_000, slots: 1 }, few: { workers: 20, slots: 50 } } as const
const CYCLES = 2_000
const CYCLES_QUICK = 1_000

export const manyWorkers: Entry = {
  name: 'many-workers',
  about: 'processor time a cycle with 1,000 workers / 20 with as many slots together',
  async measure({ rounds, quick }, resources) {
    await buildProduct(resources)
    const count = quick ? CYCLES_QUICK : CYCLES
    const waiting = count * (rounds + WARM_UP_ROUNDS_MAX) + ALL_SLOTS
    const hosts = {
      many: await startProductHost(resources, { waiting }),
      few: await startProductHost(resources, { waiting }),
    }
    for (const who of ['many', 'few'] as const)
      await hosts[who].workerLoad.enroll(SIZES[who].workers, SIZES[who].slots)
    const turns = { many: [] as number[], few: [] as number[] }
    const measureOnce = (who: 'many' | 'few') => async () => {
      await longestTurnMs(hosts[who].served)
      const { perSecond, micros } = await measureCycles(hosts[who], count, 0, ALL_SLOTS)
      turns[who].push(await longestTurnMs(hosts[who].served))
      return { value: perSecond, cpuMicros: micros }
    }
    const measured = await measureWhenSteady(rounds, { many: measureOnce('many'), few: measureOnce('few') })
    for (const host of Object.values(hosts)) await host.stop()
    const label = {
      name: `cycles, ${SIZES.many.workers} workers / ${SIZES.few.workers}`,
      unit: 'a second',
      target: { of: 'processor ratio', is: 'at least', bound: 0.9 },
      notes: ['processor time of the host, without what it postpones'],
    } as const
    return [
      compareMeasurements(
        label,
        measured.map(({ many, few }) => ({ ours: many, raw: few })),
      ),
      ...(['many', 'few'] as const).map((who) =>
        absoluteFigure(
          {
            name: `  longest turn with ${SIZES[who].workers}`,
            unit: 'ms',
            target: TURN_TARGET,
            notes: [`all ${ALL_SLOTS} held runs are completed at once`],
          },
          // The rounds before were discarded.
          turns[who].slice(-rounds),
        ),
      ),
    ]
  },
}

/**
 * Measures what a cycle costs with many workers and with few that have as many slots together.
 *
 * The rate falls with the number of sockets too, so the host's processor time a cycle is the figure that counts.
 */
import { startProductHost } from '../bench-hosts.ts'
import { type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { WARM_UP_ROUNDS_MAX } from '../warm-up.ts'
import { measureCycles } from './cycles.ts'

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
    const waiting = count * (rounds + WARM_UP_ROUNDS_MAX) + ALL_SLOTS
    const hosts = {
      many: await startProductHost(resources, { waiting }),
      few: await startProductHost(resources, { waiting }),
    }
    await hosts.many.workerLoad.enroll(MANY.workers, MANY.slots)
    await hosts.few.workerLoad.enroll(FEW.workers, FEW.slots)
    const measureOnce = (who: 'many' | 'few') => async () => {
      const { perSecond, micros } = await measureCycles(hosts[who], count, 0, ALL_SLOTS)
      return { value: perSecond, cpuMicros: micros }
    }
    const measured = await measureWhenSteady(rounds, { many: measureOnce('many'), few: measureOnce('few') })
    for (const host of Object.values(hosts)) await host.stop()
    const label = {
      name: `cycles, ${MANY.workers} workers / ${FEW.workers}`,
      unit: 'a second',
      target: { of: 'processor ratio', is: 'at least', bound: 0.9 },
      notes: ['processor time of the host, without what it postpones'],
    } as const
    return [
      compareMeasurements(
        label,
        measured.map(({ many, few }) => ({ ours: many, raw: few })),
      ),
    ]
  },
}

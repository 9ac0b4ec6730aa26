/**
 * Measures processor time and memory of an idle worker with an open connection that has executed a run.
 *
 * For scale: an idle Node process with the same database and socket libraries loaded.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchProcess } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { compareFigure, type Figure, type Pair } from '../figures.ts'
import { cpuMs, residentMemory, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WorkingSystem } from '../working-system.ts'

const IDLE_MS = 30_000
const MEMORY_TARGET = { of: 'ours', is: 'at most', bound: 64 } as const
const PROCESSOR_TARGET = { of: 'ours', is: 'at most', bound: 0.3 } as const
/** Two half minutes suffice, because the figures hardly vary. */
const ROUNDS_MAX = 2

export const workerIdle: Entry = {
  name: 'worker-idle',
  about: 'processor time and memory of an idle worker / Node with its libraries loaded',
  async measure({ rounds, quick }, resources) {
    await buildProduct(resources)
    const system = await WorkingSystem.start(resources)
    const bare = resources.startScript('bench/raw/idle-worker.ts')
    await bare.readLine()
    await system.waitForCompletion(system.addTicket(['write hello.txt', '  Hello!', 'commit Say hello']))
    await waitUntilIdle(system.worker.pid)
    const measurements: IdleMeasurement[] = []
    for (let round = 0; round < Math.min(rounds, quick ? 1 : ROUNDS_MAX); round++)
      measurements.push(await measureIdle(system.worker, bare))
    const own = amount(residentMemory(system.worker.pid).ownMib)
    await bare.stop()
    await system.stop()
    return figuresOf(measurements, own)
  },
}

interface IdleMeasurement {
  readonly percent: Pair
  readonly mib: Pair
}

async function measureIdle(worker: BenchProcess, bare: BenchProcess): Promise<IdleMeasurement> {
  const spent = (): Pair => ({ ours: cpuMs(worker.pid) ?? Number.NaN, raw: cpuMs(bare.pid) ?? Number.NaN })
  const [from, before] = [performance.now(), spent()]
  await sleep(IDLE_MS)
  const [ms, after] = [performance.now() - from, spent()]
  const percent = (who: keyof Pair) => ((after[who] - before[who]) / ms) * 100
  return {
    percent: { ours: percent('ours'), raw: percent('raw') },
    mib: { ours: residentMemory(worker.pid).mib, raw: residentMemory(bare.pid).mib },
  }
}

function figuresOf(measurements: readonly IdleMeasurement[], own: string): Figure[] {
  const notes = [`${IDLE_MS / 1000} s each`]
  return [
    compareFigure(
      { name: 'worker, idle, processor', unit: '% of a core', target: PROCESSOR_TARGET, notes },
      measurements.map(({ percent }) => percent),
    ),
    compareFigure(
      { name: 'worker, idle, memory', unit: 'MiB', target: MEMORY_TARGET, notes: [`${own} MiB its own`] },
      measurements.map(({ mib }) => mib),
    ),
  ]
}

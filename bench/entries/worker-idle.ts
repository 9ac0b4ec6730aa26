/**
 * What a worker costs its machine while there is nothing to do: processor time and memory, on an open line, after it
 * has carried out a run.
 *
 * For scale: an idle Node that has loaded the same database and the same sockets and nothing else.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { atRest, type Child, cpuMs, resident } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { compared, type Figure, type Pair } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WorkingYard } from '../working-host.ts'

const IDLE_MS = 30_000
const MEMORY = { of: 'ours', is: 'at most', bound: 80 } as const
const PROCESSOR = { of: 'ours', is: 'at most', bound: 0.3 } as const
/** Two half minutes say as much as five: next to nothing varies. */
const ROUNDS_MAX = 2

export const workerIdle: Entry = {
  name: 'worker-idle',
  about: 'processor time and memory of a worker with nothing to do / Node with its libraries loaded',
  async measure({ rounds, quick }, workshop) {
    await buildProduct(workshop)
    const yard = await WorkingYard.open(workshop)
    const bare = workshop.script('bench/raw/idle-worker.ts')
    await bare.line()
    await yard.completed(yard.ticket(['write hello.txt', '  Hello!', 'commit Say hello']))
    await atRest(yard.worker.pid)
    const looks: Look[] = []
    for (let round = 0; round < Math.min(rounds, quick ? 1 : ROUNDS_MAX); round++)
      looks.push(await look(yard.worker, bare))
    const own = amount(resident(yard.worker.pid).ownMib)
    await bare.stop()
    await yard.leave()
    return figuresOf(looks, own)
  },
}

interface Look {
  readonly percent: Pair
  readonly mib: Pair
}

async function look(worker: Child, bare: Child): Promise<Look> {
  const spent = (): Pair => ({ ours: cpuMs(worker.pid) ?? Number.NaN, raw: cpuMs(bare.pid) ?? Number.NaN })
  const [from, before] = [performance.now(), spent()]
  await sleep(IDLE_MS)
  const [ms, after] = [performance.now() - from, spent()]
  const percent = (who: keyof Pair) => ((after[who] - before[who]) / ms) * 100
  return {
    percent: { ours: percent('ours'), raw: percent('raw') },
    mib: { ours: resident(worker.pid).mib, raw: resident(bare.pid).mib },
  }
}

function figuresOf(looks: readonly Look[], own: string): Figure[] {
  const notes = [`${IDLE_MS / 1000} s each; the system counts hundredths of a second`]
  return [
    compared(
      { name: 'worker, idle, processor', unit: '% of a core', target: PROCESSOR, notes },
      looks.map(({ percent }) => percent),
    ),
    compared(
      { name: 'worker, idle, memory', unit: 'MiB', target: MEMORY, notes: [`${own} MiB its own`] },
      looks.map(({ mib }) => mib),
    ),
  ]
}

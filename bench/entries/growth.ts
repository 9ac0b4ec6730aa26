/**
 * Measures whether a host becomes slower with age: cycles and idle dispatch with many and with few stored runs.
 * Also measures the disk use of a finished run.
 *
 * The disk use is that of a database without empty pages in which a host queued, executed and finished this many
 * runs and nothing else. The notes show the size of the runs' event files.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { type StoredRunCounts, startProductHost } from '../bench-hosts.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { absoluteFigure, compareMeasurements, type Figure } from '../figures.ts'
import { HISTORY_RUNS } from '../history.ts'
import { startHostWithTickets } from '../host-with-tickets.ts'
import { waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WARM_UP_ROUNDS_MAX } from '../warm-up.ts'
import { measureCycles, SLOTS, WORKERS } from './cycles.ts'
import { DISPATCH_TICKETS, measureLatency } from './dispatch.ts'

const YOUNG: StoredRunCounts = { finished: 1_000 }
const OLD: StoredRunCounts = { finished: 'history' }
const CYCLES = 1_500
const CYCLES_QUICK = 500
const DISPATCHES = 6
const DISPATCHES_QUICK = 3
/** Longer than events wait before they move into their files. */
const DISPATCH_REST_MS = 1_300
const RUNS_ON_DISK = 2_000
const AGES = `${HISTORY_RUNS / 1000}k runs / 1k`

export const growth: Entry = {
  name: 'growth',
  about: `cycles, dispatch with ${AGES}; disk for a finished run`,
  async measure(effort, resources) {
    await buildProduct(resources)
    return [
      await cyclesByAge(resources, effort),
      await dispatchByAge(resources, effort),
      await measureDiskUse(resources),
    ]
  },
}

async function cyclesByAge(resources: BenchResources, effort: Effort): Promise<Figure> {
  const count = effort.quick ? CYCLES_QUICK : CYCLES
  const waiting = count * (effort.rounds + WARM_UP_ROUNDS_MAX) + WORKERS * SLOTS
  const hosts = {
    old: await startProductHost(resources, { ...OLD, waiting }),
    young: await startProductHost(resources, { ...YOUNG, waiting }),
  }
  for (const { workerLoad } of Object.values(hosts)) await workerLoad.enroll(WORKERS, SLOTS)
  const measureOnce = (who: 'old' | 'young') => async () => {
    const { perSecond, micros, laterMicros } = await measureCycles(hosts[who], count, 0)
    return { value: perSecond, cpuMicros: micros + laterMicros }
  }
  const rounds = await measureWhenSteady(effort.rounds, {
    old: measureOnce('old'),
    young: measureOnce('young'),
  })
  for (const host of Object.values(hosts)) await host.stop()
  const target = { of: 'processor ratio', is: 'at least', bound: 0.9 } as const
  return compareMeasurements(
    { name: `cycles, ${AGES}`, unit: 'a second', target },
    rounds.map(({ old, young }) => ({ ours: old, raw: young })),
  )
}

async function dispatchByAge(resources: BenchResources, effort: Effort): Promise<Figure> {
  const hosts = {
    old: await startHostWithTickets(resources, OLD, DISPATCH_TICKETS),
    young: await startHostWithTickets(resources, YOUNG, DISPATCH_TICKETS),
  }
  for (const { workerLoad } of Object.values(hosts)) await workerLoad.enroll(1, 1)
  const count = effort.quick ? DISPATCHES_QUICK : DISPATCHES
  const measureOnce = (who: 'old' | 'young') => async () => {
    const { p50, cpuMicros } = await measureLatency(hosts[who], count, DISPATCH_REST_MS)
    return { value: p50, cpuMicros }
  }
  const rounds = await measureWhenSteady(effort.rounds, {
    old: measureOnce('old'),
    young: measureOnce('young'),
  })
  for (const host of Object.values(hosts)) await host.stop()
  const target = { of: 'ratio', is: 'at most', bound: 1.1 } as const
  return compareMeasurements(
    { name: `idle dispatch p50, ${AGES}`, unit: 'ms', target },
    rounds.map(({ old, young }) => ({ ours: old, raw: young })),
  )
}

async function measureDiskUse(resources: BenchResources): Promise<Figure> {
  const host = await startProductHost(resources, { waiting: RUNS_ON_DISK })
  await host.workerLoad.enroll(WORKERS, SLOTS)
  await host.workerLoad.completeRuns(RUNS_ON_DISK, 0)
  await waitUntilIdle(host.child.pid)
  await host.child.stop()
  const bytes = await compactDatabaseBytes(resources, host.folder)
  const ownKiB = Number(
    execFileSync('du', ['-sk', join(host.folder, 'runs')], { encoding: 'utf8' }).split('\t')[0],
  )
  await host.stop()
  return absoluteFigure(
    {
      name: 'disk for a finished run',
      unit: 'KiB',
      target: { of: 'ours', is: 'at most', bound: 3 },
      notes: [
        `its folder and the file of its own events: ${amount(ownKiB / RUNS_ON_DISK)} KiB in whole blocks`,
      ],
    },
    [bytes / 1024 / RUNS_ON_DISK],
  )
}

async function compactDatabaseBytes(resources: BenchResources, folder: string): Promise<number> {
  const copy = resources.createFolder('copy')
  const bytes = Number(
    await resources.startScript('bench/raw/database-size.ts', join(folder, 'state'), copy).readLine(),
  )
  resources.removeFolder(copy)
  return bytes
}

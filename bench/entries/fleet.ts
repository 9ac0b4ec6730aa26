/**
 * Measures one host with many real workers, each a process of its own with sandboxes and git.
 *
 * The machine executes all of them, so how long the runs take says nothing about the host. What counts is the host's
 * own processor time and memory, how evenly the runs are spread, and how soon drained workers are empty.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FleetResponse } from '../../protocol/worker.ts'
import type { BenchProcess } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { absoluteFigure, type Figure } from '../figures.ts'
import { cpuMs, residentMemory, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { WorkingSystem } from '../working-system.ts'

const WORKERS = 200
const WORKERS_QUICK = 20
const RUNS_EACH = 3
/** Workers that start at the same time; more would only wait for the processor. */
const STARTING_AT_ONCE = 4
const IDLE_MS = 30_000
/** Each poll costs the host a list of all runs. */
const POLL_EVERY_MS = 2_000
const DRAIN_MS_MAX = 10 * 60_000
const WORK = ['write hello.txt', '  Hello!', 'commit Say hello']

export const fleet: Entry = {
  name: 'fleet',
  about: 'one host with 200 worker processes: its cost, fairness, time to drain',
  async measure({ quick }, resources) {
    await buildProduct(resources)
    const system = await WorkingSystem.start(resources)
    await system.waitForCompletion(system.addTicket(WORK))
    const count = quick ? WORKERS_QUICK : WORKERS
    const { figures, workers } = await measureIdle(system, count)
    figures.push(...(await measureRuns(system, count)))
    figures.push(...(await measureDrain(system, count)))
    await Promise.all(workers.map((worker) => worker.stop()))
    await system.stop()
    return figures
  },
}

/** Starts all but the first worker, and measures what the idle ones cost. */
async function measureIdle(
  system: WorkingSystem,
  count: number,
): Promise<{ readonly figures: Figure[]; readonly workers: readonly BenchProcess[] }> {
  const { pid } = system.served.child
  await waitUntilIdle(pid)
  const before = residentMemory(pid).ownMib
  const cpuBefore = cpuMs(pid) ?? Number.NaN
  const workers = await startWorkers(system, count - 1)
  const enrolling = (cpuMs(pid) ?? Number.NaN) - cpuBefore
  await waitUntilIdle(pid)
  const [from, idleBefore] = [performance.now(), cpuMs(pid) ?? Number.NaN]
  await sleep(IDLE_MS)
  const share = (100 * ((cpuMs(pid) ?? Number.NaN) - idleBefore)) / (performance.now() - from)
  const kib = ((residentMemory(pid).ownMib - before) * 1024) / (count - 1)
  const notes = [`${count} worker processes`]
  const figures = [
    absoluteFigure({ name: 'fleet, enrolling a worker, host', unit: 'ms of processor', notes }, [
      enrolling / (count - 1),
    ]),
    absoluteFigure({ name: 'fleet, idle, host', unit: '% of a core', notes }, [share]),
    absoluteFigure({ name: 'fleet, idle, host’s memory', unit: 'KiB each', notes }, [kib]),
  ]
  return { figures, workers }
}

async function startWorkers(system: WorkingSystem, count: number): Promise<readonly BenchProcess[]> {
  const workers: BenchProcess[] = []
  const names = Array.from({ length: count }, (_, at) => `w${String(at + 1).padStart(3, '0')}`)
  const startNext = async (): Promise<void> => {
    for (let name = names.shift(); name !== undefined; name = names.shift())
      workers.push(await system.addWorker(name))
  }
  await Promise.all(Array.from({ length: STARTING_AT_ONCE }, startNext))
  return workers
}

/** All tickets are there before the first is dispatched, so that every worker could take one at any time. */
async function measureRuns(system: WorkingSystem, count: number): Promise<Figure[]> {
  const { pid } = system.served.child
  const runs = count * RUNS_EACH
  await system.request('/api/pause', 'POST')
  for (let at = 0; at < runs; at++) system.addTicket(WORK)
  await waitFor(system, (all) => all.length === runs + 1)
  await waitUntilIdle(pid)
  const before = cpuMs(pid) ?? Number.NaN
  const from = performance.now()
  await system.request('/api/resume', 'POST')
  const ended = await waitFor(system, (all) => all.every(({ finishedAt }) => finishedAt !== undefined))
  const seconds = (performance.now() - from) / 1000
  // So many sandboxes at once are more than a small machine can start in time. Their runs cost the host the same.
  const failed = ended.filter(({ status }) => status !== 'completed')
  const spent = (cpuMs(pid) ?? Number.NaN) - before
  const each = new Map<string, number>()
  // The first run was the warm-up.
  for (const { sandbox } of ended.slice(0, runs)) {
    const name = sandbox?.workerName ?? 'nobody'
    each.set(name, (each.get(name) ?? 0) + 1)
  }
  const counts = [...each.values(), ...Array<number>(count - each.size).fill(0)]
  const notes = [
    `${runs} runs in ${Math.round(seconds)} s`,
    ...(failed.length === 0 ? [] : [`${failed.length} of them failed: ${failed[0]?.error}`]),
  ]
  return [
    absoluteFigure({ name: 'fleet, a run, host', unit: 'ms of processor', notes }, [spent / runs]),
    absoluteFigure(
      { name: 'fleet, runs of a worker', unit: 'runs', notes: ['smallest to largest share'] },
      counts,
    ),
  ]
}

/** Every worker has work when it is drained. */
async function measureDrain(system: WorkingSystem, count: number): Promise<Figure[]> {
  for (let at = 0; at < count * 2; at++) system.addTicket(['run sleep 5', ...WORK])
  await until(system, ({ workers }) => workers.filter(({ activeRuns }) => activeRuns > 0).length > count / 2)
  const { workers } = (await system.request('/api/workers')) as FleetResponse
  const { pid } = system.served.child
  const before = cpuMs(pid) ?? Number.NaN
  const from = performance.now()
  for (const { id } of workers) await system.request(`/api/workers/${id}/drain`, 'POST')
  const answered = performance.now() - from
  const spent = (cpuMs(pid) ?? Number.NaN) - before
  await until(system, (all) => all.workers.every(({ activeRuns }) => activeRuns === 0))
  const seconds = (performance.now() - from) / 1000
  return [
    absoluteFigure({ name: 'fleet, a drain is answered after', unit: 'ms' }, [answered / workers.length]),
    absoluteFigure({ name: 'fleet, a drain, host', unit: 'ms of processor' }, [spent / workers.length]),
    absoluteFigure(
      { name: 'fleet, all drained after', unit: 's', notes: ['runs of 5 s and more, all at once'] },
      [seconds],
    ),
  ]
}

async function waitFor(
  system: WorkingSystem,
  isDone: (runs: Awaited<ReturnType<WorkingSystem['runs']>>) => boolean,
): ReturnType<WorkingSystem['runs']> {
  for (;;) {
    const runs = await system.runs(1_000)
    if (isDone(runs)) return runs
    await sleep(POLL_EVERY_MS)
  }
}

async function until(system: WorkingSystem, isDone: (fleet: FleetResponse) => boolean): Promise<void> {
  const deadline = performance.now() + DRAIN_MS_MAX
  while (!isDone((await system.request('/api/workers')) as FleetResponse)) {
    if (performance.now() > deadline) throw new Error('the workers are not empty')
    await sleep(POLL_EVERY_MS)
  }
}

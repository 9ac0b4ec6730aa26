/**
 * Measures the cost of idle workers: memory for each, and processor time for their heartbeats.
 *
 * Memory is the difference between a large fleet and a small one, each after a forced collection, so neither garbage
 * nor what a host needs without workers counts. The first workers send heartbeats fast, so that compiled code exists
 * before the measurement. A bare server with as many open sockets is compared.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchHost, startBareHostWith, startProductHost, WORKING_CONFIG } from '../bench-hosts.ts'
import { type CollectedKib, CollectedMemory } from '../collected-memory.ts'
import type { Effort, Entry } from '../entry.ts'
import { absoluteFigure, compareFigure } from '../figures.ts'
import { cpuMs, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

const WORKERS = 2_000
const WORKERS_QUICK = 1_000
const FIRST_WORKERS = 200
const FIRST_HEARTBEAT_MS = 50
const FIRST_MEASURING_MS = 1_500
const HEARTBEAT_MS = 15_000
const MEASURING_MS = 30_000
const MEASURING_MS_QUICK = 3_000
/** Faster than in production, so that every worker has proved itself before the measurement. */
const PROOF_HEARTBEAT_MS = 1_000
const SETTLE_MS = 1_000

export const idleWorkers: Entry = {
  name: 'idle-workers',
  about: 'memory after a collection and processor time for idle workers / bare sockets',
  async measure(effort, resources) {
    await buildProduct(resources)
    const memory = new CollectedMemory(resources)
    const host = await startProductHost(resources, {}, WORKING_CONFIG, memory.env)
    const ours = await measureIdleCosts(host, memory, effort, 1)
    const bare = await startBareHostWith(resources, memory.env, 'bare-floor')
    const raw = await measureIdleCosts(bare, memory, effort, 0.25)
    const workers = effort.quick ? WORKERS_QUICK : WORKERS
    const scaled = workers === WORKERS ? [] : [`of ${WORKERS} workers, computed from ${workers}`]
    return [
      compareFigure(
        {
          name: `idle worker, ${workers} less ${FIRST_WORKERS}`,
          unit: 'KiB each',
          target: { of: 'ours', is: 'at most', bound: 8 },
          notes: [
            'objects and buffers of JavaScript after a collection, without what native libraries allocate',
            `the process’s own resident memory, with pages that come and go: ours ${amount(ours.kib.own)}, raw ${amount(raw.kib.own)} KiB each`,
          ],
        },
        [{ ours: ours.kib.objects, raw: raw.kib.objects }],
      ),
      absoluteFigure(
        {
          name: `heartbeats of ${WORKERS} workers`,
          unit: '% of a core',
          target: { of: 'ours', is: 'at most', bound: 3 },
          notes: [`raw: ${amount(raw.share)} %`, ...scaled],
        },
        [ours.share],
      ),
      absoluteFigure({ name: 'the same, less the idle host', unit: '% of a core' }, [
        ours.share - ours.idleShare,
      ]),
    ]
  },
}

interface IdleCosts {
  /** For each worker. */
  readonly kib: CollectedKib
  /** Percent of a core, scaled to the full number of workers. */
  readonly share: number
  readonly idleShare: number
}

/** `part`: share of the time for measuring heartbeats. */
async function measureIdleCosts(
  host: BenchHost,
  memory: CollectedMemory,
  { quick }: Effort,
  part: number,
): Promise<IdleCosts> {
  const { child, workerLoad } = host
  const workers = quick ? WORKERS_QUICK : WORKERS
  const measuringMs = quick ? MEASURING_MS_QUICK : MEASURING_MS
  await waitUntilIdle(child.pid)
  const idleShare = await measureCpuShare(child.pid, measuringMs / 10)
  await workerLoad.enroll(FIRST_WORKERS, 1)
  await workerLoad.setHeartbeatInterval(FIRST_HEARTBEAT_MS)
  await sleep(FIRST_MEASURING_MS)
  await workerLoad.setHeartbeatInterval(HEARTBEAT_MS)
  await waitUntilIdle(child.pid)
  const before = await memory.measure(child.pid)
  await workerLoad.enroll(workers - FIRST_WORKERS, 1)
  await workerLoad.setHeartbeatInterval(PROOF_HEARTBEAT_MS)
  await sleep(1.5 * PROOF_HEARTBEAT_MS)
  await workerLoad.setHeartbeatInterval(HEARTBEAT_MS)
  await sleep(SETTLE_MS)
  const share = await measureCpuShare(child.pid, measuringMs * part)
  const after = await memory.measure(child.pid)
  await host.stop()
  const each = (part: keyof CollectedKib) => (after[part] - before[part]) / (workers - FIRST_WORKERS)
  return {
    kib: { own: each('own'), objects: each('objects') },
    share: share * (WORKERS / workers),
    idleShare,
  }
}

async function measureCpuShare(pid: number, ms: number): Promise<number> {
  const [from, before] = [performance.now(), cpuMs(pid) ?? Number.NaN]
  await sleep(ms)
  return (100 * ((cpuMs(pid) ?? Number.NaN) - before)) / (performance.now() - from)
}

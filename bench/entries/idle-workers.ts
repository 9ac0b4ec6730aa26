/**
 * What workers cost that have nothing to do: memory for each, and processor time for their heartbeats.
 *
 * Memory is the host's own (files and pages of the database left out). A few workers come first and beat fast, so that
 * what a process needs once (compiled code, room for garbage) is there before the others are weighed. A bare server
 * with as many open sockets stands beside it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchHost, startBareHost, startProductHost } from '../bench-hosts.ts'
import { cpuMs, residentMemory, waitUntilIdle } from '../bench-resources.ts'
import type { Effort, Entry } from '../entry.ts'
import { absoluteFigure, compareFigure } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

const WORKERS = 2_000
const WORKERS_QUICK = 400
const FIRST_WORKERS = 100
const FIRST_HEARTBEAT_MS = 50
const FIRST_MEASURING_MS = 1_500
const HEARTBEAT_MS = 15_000
const MEASURING_MS = 30_000
const MEASURING_MS_QUICK = 3_000
/** Faster than in life, so that everybody has proved itself before the measuring begins. */
const PROOF_HEARTBEAT_MS = 1_000
const SETTLE_MS = 1_000

export const idleWorkers: Entry = {
  name: 'idle-workers',
  about: 'bytes and processor time for workers that have nothing to do / bare sockets',
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await measureIdleCosts(await startProductHost(resources, {}), effort, 1)
    const raw = await measureIdleCosts(await startBareHost(resources, 'bare-floor'), effort, 0.25)
    const workers = effort.quick ? WORKERS_QUICK : WORKERS
    const scaled = workers === WORKERS ? [] : [`of ${WORKERS} workers, worked out from ${workers}`]
    return [
      compareFigure(
        {
          name: `idle worker, ${workers}`,
          unit: 'KiB each',
          target: { of: 'ours', is: 'at most', bound: 8 },
          notes: ['of memory that is the process’s own'],
        },
        [{ ours: ours.kib, raw: raw.kib }],
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
  readonly kib: number
  /** Of a core, in percent, as of the full number of workers. */
  readonly share: number
  readonly idleShare: number
}

/** `part`: how much of the time is spent on measuring heartbeats. */
async function measureIdleCosts(host: BenchHost, { quick }: Effort, part: number): Promise<IdleCosts> {
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
  const before = residentMemory(child.pid).ownMib
  await workerLoad.enroll(workers - FIRST_WORKERS, 1)
  await workerLoad.setHeartbeatInterval(PROOF_HEARTBEAT_MS)
  await sleep(1.5 * PROOF_HEARTBEAT_MS)
  await workerLoad.setHeartbeatInterval(HEARTBEAT_MS)
  await sleep(SETTLE_MS)
  const share = await measureCpuShare(child.pid, measuringMs * part)
  const kib = ((residentMemory(child.pid).ownMib - before) * 1024) / (workers - FIRST_WORKERS)
  await host.stop()
  return { kib, share: share * (WORKERS / workers), idleShare }
}

async function measureCpuShare(pid: number, ms: number): Promise<number> {
  const [from, before] = [performance.now(), cpuMs(pid) ?? Number.NaN]
  await sleep(ms)
  return (100 * ((cpuMs(pid) ?? Number.NaN) - before)) / (performance.now() - from)
}

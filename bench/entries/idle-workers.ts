/**
 * What workers cost that have nothing to do: memory for each, and processor time for their heartbeats.
 *
 * Memory is the host's own (files and pages of the database left out). A few workers come first and beat fast, so that
 * what a process needs once (compiled code, room for garbage) is there before the others are weighed. A bare server
 * with as many open sockets stands beside it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { bareYard, ourYard, type Yard } from '../bench-hosts.ts'
import { atRest, cpuMs, resident } from '../bench-resources.ts'
import type { Effort, Entry } from '../entry.ts'
import { compared, measured } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

const WORKERS = 2_000
const WORKERS_QUICK = 400
const FIRST_WORKERS = 100
const FIRST_BEAT_MS = 50
const FIRST_BEATING_MS = 1_500
const BEAT_MS = 15_000
const BEATING_MS = 30_000
const BEATING_MS_QUICK = 3_000
/** Faster than in life, so that everybody has proved itself before the measuring begins. */
const PROOF_BEAT_MS = 1_000
const SETTLE_MS = 1_000

export const idleWorkers: Entry = {
  name: 'idle-workers',
  about: 'bytes and processor time for workers that have nothing to do / bare sockets',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const ours = await weigh(await ourYard(workshop, {}), effort, 1)
    const raw = await weigh(await bareYard(workshop, 'bare-floor'), effort, 0.25)
    const workers = effort.quick ? WORKERS_QUICK : WORKERS
    const scaled = workers === WORKERS ? [] : [`of ${WORKERS} workers, worked out from ${workers}`]
    return [
      compared(
        {
          name: `idle worker, ${workers}`,
          unit: 'KiB each',
          target: { of: 'ours', is: 'at most', bound: 8 },
          notes: ['of memory that is the process’s own'],
        },
        [{ ours: ours.kib, raw: raw.kib }],
      ),
      measured(
        {
          name: `heartbeats of ${WORKERS} workers`,
          unit: '% of a core',
          target: { of: 'ours', is: 'at most', bound: 3 },
          notes: [`raw: ${amount(raw.share)} %`, ...scaled],
        },
        [ours.share],
      ),
      measured({ name: 'the same, less the idle host', unit: '% of a core' }, [ours.share - ours.idleShare]),
    ]
  },
}

interface Weight {
  readonly kib: number
  /** Of a core, in percent, as of the full number of workers. */
  readonly share: number
  readonly idleShare: number
}

/** `part`: how much of the time is spent on measuring heartbeats. */
async function weigh(yard: Yard, { quick }: Effort, part: number): Promise<Weight> {
  const { child, crew } = yard
  const workers = quick ? WORKERS_QUICK : WORKERS
  const beatingMs = quick ? BEATING_MS_QUICK : BEATING_MS
  await atRest(child.pid)
  const idleShare = await shareOf(child.pid, beatingMs / 10)
  await crew.enroll(FIRST_WORKERS, 1)
  await crew.beat(FIRST_BEAT_MS)
  await sleep(FIRST_BEATING_MS)
  await crew.beat(BEAT_MS)
  await atRest(child.pid)
  const before = resident(child.pid).ownMib
  await crew.enroll(workers - FIRST_WORKERS, 1)
  await crew.beat(PROOF_BEAT_MS)
  await sleep(1.5 * PROOF_BEAT_MS)
  await crew.beat(BEAT_MS)
  await sleep(SETTLE_MS)
  const share = await shareOf(child.pid, beatingMs * part)
  const kib = ((resident(child.pid).ownMib - before) * 1024) / (workers - FIRST_WORKERS)
  await yard.leave()
  return { kib, share: share * (WORKERS / workers), idleShare }
}

async function shareOf(pid: number, ms: number): Promise<number> {
  const [from, before] = [performance.now(), cpuMs(pid) ?? Number.NaN]
  await sleep(ms)
  return (100 * ((cpuMs(pid) ?? Number.NaN) - before)) / (performance.now() - from)
}

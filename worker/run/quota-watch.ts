/**
 * `QuotaWatch` finds out when the folder of a running sandbox has outgrown its disk quota.
 *
 * Measuring a large checkout takes seconds. So the folder is measured only when the disk has lost half of what the run
 * may still write, and now and then, because other folders may shrink meanwhile.
 */
import type { Clock } from '../../core/ports.ts'
import {
  SANDBOX_DISK_SHARE_DEFAULT,
  SANDBOX_MEASURE_EVERY_MS,
  SANDBOX_MEASURE_PAUSE_MS_MIN,
} from '../../protocol/limits.ts'
import { thisMachine } from '../sandbox/local-machine.ts'
import type { DiskSpace } from './free-disk.ts'

export interface QuotaWatchOptions {
  readonly folder: string
  /** The setting; undefined: a share of the disk. */
  readonly quotaGib: number | undefined
  readonly diskBytes: number | undefined
  readonly free: DiskSpace
  readonly clock: Clock
  /** The bytes that a folder takes; undefined: unknown. Processes may be changing it. */
  readonly measure: (folder: string) => Promise<number | undefined>
}

const GIB = 1024 ** 3
const MEASURE_MS_MAX = 60_000
/** After a measurement the folder is left alone for this many times its duration. */
const PAUSE_FACTOR = 20

export class QuotaWatch {
  readonly #options: QuotaWatchOptions
  readonly #quotaBytes: number
  #bytes = 0
  #freeBytes: number
  #measuredAt: number
  #nextAt = 0

  constructor(options: QuotaWatchOptions) {
    const { quotaGib, diskBytes, free, clock } = options
    this.#options = options
    this.#quotaBytes = quotaGib === undefined ? shareOf(diskBytes) : quotaGib * GIB
    this.#freeBytes = free.bytes
    this.#measuredAt = clock.monotonic()
  }

  /** Returns a sentence once the folder has outgrown the quota. */
  async findProblem(free: DiskSpace): Promise<string | undefined> {
    const { clock, folder, measure } = this.#options
    const now = clock.monotonic()
    const isDue = now - this.#measuredAt >= SANDBOX_MEASURE_EVERY_MS || this.#mayExceed(free)
    if (!isDue || now < this.#nextAt) return undefined
    const bytes = await measure(folder)
    const after = clock.monotonic()
    this.#measuredAt = after
    this.#nextAt = after + Math.max(SANDBOX_MEASURE_PAUSE_MS_MIN, PAUSE_FACTOR * (after - now))
    if (bytes === undefined) return undefined
    this.#bytes = bytes
    this.#freeBytes = free.bytes
    return bytes > this.#quotaBytes ? this.#describe(bytes) : undefined
  }

  #mayExceed(free: DiskSpace): boolean {
    return this.#freeBytes - free.bytes >= (this.#quotaBytes - this.#bytes) / 2
  }

  #describe(bytes: number): string {
    const quota = inGib(this.#quotaBytes)
    const allowed =
      this.#options.quotaGib === undefined
        ? `a quarter of the worker's disk is ${quota} GiB; set sandbox.diskQuotaGib to allow more`
        : `sandbox.diskQuotaGib allows ${quota} GiB`
    return `the run's files take ${inGib(bytes)} GiB, and ${allowed}`
  }
}

/** Returns the bytes of a folder whose content changes; `du` follows no links in it. */
export async function measureWithDu(folder: string): Promise<number | undefined> {
  const args = ['-skx', '--', folder]
  const outcome = await thisMachine().run({ program: '/usr/bin/du', args, timeoutMs: MEASURE_MS_MAX })
  // Files that vanish meanwhile change the exit code only.
  const kib = outcome.is === 'exited' ? /^(\d+)\t/.exec(outcome.stdout)?.[1] : undefined
  return kib === undefined ? undefined : Number(kib) * 1024
}

function shareOf(diskBytes: number | undefined): number {
  return diskBytes === undefined ? Number.POSITIVE_INFINITY : diskBytes * SANDBOX_DISK_SHARE_DEFAULT
}

const inGib = (bytes: number): string => String(Number((bytes / GIB).toPrecision(3)))

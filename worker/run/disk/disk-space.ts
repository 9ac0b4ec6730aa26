/** Measures the disk of this worker: what is free on it, what a folder takes, and when a sandbox outgrows its quota. */
import { constants } from 'node:fs'
import { chmod, lstat, open, opendir, statfs } from 'node:fs/promises'
import type { Clock } from '../../../core/ports/clock.ts'
import { thisMachine } from '../../sandbox/local-machine.ts'

export interface DiskSpace {
  readonly bytes: number
  /** Inodes. Infinity: the file system does not count them. */
  readonly files: number
}

/** A file system that is nearly out of inodes counts as full: an agent can use them up with empty files. */
const FREE_FILES_MIN = 10_000
const MIB = 1024 * 1024

/** Returns the disk space that is free for runs. File systems that do not count inodes report 0 of them. */
export async function freeSpace(folder: string): Promise<DiskSpace> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return { bytes: bavail * bsize, files: files > 0 ? ffree : Number.POSITIVE_INFINITY }
}

/** Returns what a run lacks; undefined: the space suffices. */
export function describeShortage({ bytes, files }: DiskSpace, bytesMin: number): string | undefined {
  if (bytes < bytesMin) return `room for ${Math.floor(bytes / MIB)} MiB, a run needs ${bytesMin / MIB}`
  if (files < FREE_FILES_MIN) return `room for ${files} files, a run needs ${FREE_FILES_MIN}`
  return undefined
}

/** Returns the size of the whole disk. undefined: the file system does not say, as some network file systems. */
export async function diskBytes(folder: string): Promise<number | undefined> {
  const { blocks, bsize } = await statfs(folder)
  return blocks > 0 ? blocks * bsize : undefined
}

// ---- the quota of a running sandbox ------------------------------------------------------------------------------

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
/** A running sandbox is measured at least this often, and no sooner than the pause after the last time. */
export const SANDBOX_MEASURE_EVERY_MS = 30_000
export const SANDBOX_MEASURE_PAUSE_MS_MIN = 10_000
const MEASURE_MS_MAX = 60_000
/** After a measurement the folder is left alone for this many times its duration. */
const PAUSE_FACTOR = 20

/**
 * `QuotaWatch` finds out when the folder of a running sandbox has outgrown its disk quota.
 *
 * Measuring a large checkout takes seconds. So the folder is measured only when the disk has lost half of what the run
 * may still write, and now and then, because other folders may shrink meanwhile.
 */
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

/**
 * The share of its disk that a worker's retained sandboxes may take without `sandbox.diskQuotaGib`. A share fits every
 * size of disk, and a quarter leaves room for running sandboxes, mirrors, and a second worker.
 */
const SANDBOX_DISK_SHARE_DEFAULT = 0.25

/** The part of the disk that retained sandboxes, or one running sandbox, may take where no quota is set. */
export function shareOf(diskBytes: number | undefined): number {
  return diskBytes === undefined ? Number.POSITIVE_INFINITY : diskBytes * SANDBOX_DISK_SHARE_DEFAULT
}

const inGib = (bytes: number): string => String(Number((bytes / GIB).toPrecision(3)))

// ---- the size of a folder ----------------------------------------------------------------------------------------

/** Counting stops after this many entries. */
const FILES_MAX = 500_000
/** Leaves enough room below the kernel's path limit for one more name. */
const PATH_BYTES_MAX = 2_048
const BLOCK_BYTES = 512
/** The owner may list the folder and enter it. */
const OWNER_READ_EXECUTE = 0o500
/** Node returns names as bytes, because a name need not be valid UTF-8. */
const RAW_NAMES = 'buffer' as BufferEncoding
const SLASH = Buffer.from('/')

/**
 * Returns how many bytes on disk and how many files a folder takes whose content an agent chose.
 *
 * Links are counted but not followed. Only blocks on disk count. An agent cannot hide files: unreadable folders are made
 * readable, names may be any bytes, and paths may be longer than the kernel's limit. The caller makes sure that no
 * process runs in the folder any more.
 */
export async function measureDiskUsage(folder: string): Promise<DiskSpace> {
  let bytes = 0
  let files = 0
  let entriesLeft = FILES_MAX
  const visit = async (path: Buffer): Promise<void> => {
    await makeReadable(path).catch(() => {})
    const entries = await opendir(path, { encoding: RAW_NAMES }).catch(() => undefined)
    if (entries === undefined) return
    for await (const entry of entries) {
      entriesLeft -= 1
      if (entriesLeft < 0) return
      files += 1
      // With encoding `buffer` the name is a Buffer, which Node's types do not say.
      const child = Buffer.concat([path, SLASH, entry.name as unknown as Buffer])
      bytes += await diskBytesOf(child)
      if (entry.isDirectory()) await (child.length < PATH_BYTES_MAX ? visit(child) : visitByDescriptor(child))
    }
  }
  /** Opens the folder and continues at its path below /proc/self/fd, which is short again. */
  const visitByDescriptor = async (path: Buffer): Promise<void> => {
    await makeReadable(path).catch(() => {})
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
    const handle = await open(path, flags).catch(() => undefined)
    if (handle === undefined) return
    try {
      await visit(Buffer.from(`/proc/self/fd/${handle.fd}`))
    } finally {
      await handle.close()
    }
  }
  await visit(Buffer.from(folder))
  return { bytes, files }
}

/** An agent that runs as the worker's own user could have removed the worker's access. */
async function makeReadable(folder: Buffer): Promise<void> {
  const { mode } = await lstat(folder)
  if ((mode & OWNER_READ_EXECUTE) !== OWNER_READ_EXECUTE) await chmod(folder, mode | OWNER_READ_EXECUTE)
}

function diskBytesOf(path: Buffer): Promise<number> {
  return lstat(path).then(
    ({ blocks }) => blocks * BLOCK_BYTES,
    () => 0,
  )
}

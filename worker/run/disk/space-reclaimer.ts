/**
 * `SpaceReclaimer` discards retained sandboxes one after the other until the disk has room for a run.
 *
 * The reclaimer discards nothing in vain: it stops when the remaining sandboxes hold too little, or when a deletion
 * fails or gives no room, because then something else fills the disk. A discarded sandbox frees its space only when its
 * folder is deleted, so `run` waits for each deletion. Callers share one pass and may stop waiting; the pass goes on.
 */
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { type DiskSpace, describeShortage, shareOf } from './disk-space.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { Sandboxes, SandboxesOptions } from './sandboxes.ts'

export interface SpaceReclaimerPorts {
  readonly sandboxes: Pick<
    Sandboxes,
    'reclaim' | 'emptyTrash' | 'listDiscardable' | 'countKept' | 'discardForSpace'
  >
  readonly freeSpace: () => Promise<DiskSpace>
  readonly bytesMin: number
}

type IsBusy = (runId: string) => boolean

export class SpaceReclaimer {
  readonly #ports: SpaceReclaimerPorts
  #pass: Promise<string | undefined> | undefined

  constructor(ports: SpaceReclaimerPorts) {
    this.#ports = ports
  }

  /** Returns why no more sandboxes are discarded; undefined: the disk has room. */
  run(isBusy: IsBusy): Promise<string | undefined> {
    this.#pass ??= this.#discardUntilEnough(isBusy).finally(() => {
      this.#pass = undefined
    })
    return this.#pass
  }

  async #discardUntilEnough(isBusy: IsBusy): Promise<string | undefined> {
    const { sandboxes, freeSpace } = this.#ports
    // These would be discarded within minutes anyway, so they need not suffice.
    await sandboxes.reclaim(isBusy)
    let before: DiskSpace | undefined
    for (;;) {
      const isTrashEmpty = await sandboxes.emptyTrash()
      const free = await freeSpace()
      if (this.#isEnough(free)) return undefined
      if (!isTrashEmpty) return 'a discarded sandbox could not be deleted; the worker’s log says why'
      if (before !== undefined && !hasGrown(before, free))
        return 'the deletion of a retained sandbox gave no room; free disk space on this machine'
      const candidates = sandboxes.listDiscardable(isBusy)
      const [next] = candidates
      if (next === undefined || !this.#isEnough(addSpace(free, candidates)))
        return describeKept(sandboxes.countKept(isBusy))
      if (!(await sandboxes.discardForSpace(next)))
        return 'a retained sandbox could not be deleted; the worker’s log says why'
      before = free
    }
  }

  #isEnough(space: DiskSpace): boolean {
    return describeShortage(space, this.#ports.bytesMin) === undefined
  }
}

function describeKept(unpushed: number): string {
  const cure = 'free disk space on this machine'
  if (unpushed === 0)
    return `the retained sandboxes that are not in use hold too little, so they are kept; ${cure}`
  return `the other retained sandboxes hold too little, and ${unpushed} with unpushed work stay until somebody discards their runs; ${cure}`
}

function hasGrown(before: DiskSpace, after: DiskSpace): boolean {
  return after.bytes > before.bytes || after.files > before.files
}

/** The space after all of these sandboxes are deleted. Older records lack the number of files. */
function addSpace(free: DiskSpace, sandboxes: ReturnType<Sandboxes['listDiscardable']>): DiskSpace {
  return sandboxes.reduce<DiskSpace>(
    (sum, { bytes, files = 0 }) => ({ bytes: sum.bytes + bytes, files: sum.files + files }),
    free,
  )
}

// ---- the order -----------------------------------------------------------------------------------------------------

type Retained = Pick<SandboxRecord, 'createdAt' | 'unpushed' | 'bytes' | 'quotaGib'>

const GIB = 1024 ** 3

/** The order in which retained sandboxes are discarded: the oldest first, and those with unpushed work never. */
export function sortForDiscarding<T extends Retained>(records: readonly T[]): T[] {
  return records.filter(({ unpushed }) => !unpushed).sort(compareAges)
}

/**
 * Selects what exceeds the quota. The newest sandbox has the current setting; without one a share of the disk counts.
 */
export function selectBeyondQuota<T extends Retained>(
  retained: readonly T[],
  diskBytes: number | undefined,
): T[] {
  const quotaGib = retained.toSorted(compareAges).at(-1)?.quotaGib
  const quotaBytes = quotaGib === undefined ? shareOf(diskBytes) : quotaGib * GIB
  let excess = retained.reduce((sum, { bytes }) => sum + bytes, 0) - quotaBytes
  return sortForDiscarding(retained).filter(({ bytes }) => {
    if (excess <= 0) return false
    excess -= bytes
    return true
  })
}

function compareAges(a: Retained, b: Retained): number {
  return a.createdAt === b.createdAt ? 0 : a.createdAt < b.createdAt ? -1 : 1
}

// ---- the trash ---------------------------------------------------------------------------------------------------

/** Renames folders into the trash and deletes them in the background. */
export class SandboxTrash {
  readonly #options: Pick<SandboxesOptions, 'trash' | 'clock' | 'log' | 'deleteFolder'>
  /** Deletions that are still running. */
  readonly #deletions = new Set<Promise<void>>()
  /** Folders in the trash whose deletion failed. */
  readonly #undeleted = new Set<string>()
  #count = 0

  constructor(options: Pick<SandboxesOptions, 'trash' | 'clock' | 'log' | 'deleteFolder'>) {
    this.#options = options
  }

  /** Whether every deletion has succeeded. */
  get isEmpty(): boolean {
    return this.#undeleted.size === 0
  }

  get isBusy(): boolean {
    return this.#deletions.size > 0
  }

  /** Returns whether the folder is in the trash now. */
  async move(path: string, runId: string): Promise<boolean> {
    this.#count += 1
    const name = join(this.#options.trash, `${runId}-${this.#options.clock.now()}-${this.#count}`)
    const moved = await rename(path, name).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        // ENOENT is normal: before a run's first attempt there is no folder.
        if (error.code !== 'ENOENT')
          this.#options.log.warn({ err: error, runId }, 'a sandbox could not be moved into the trash')
        return false
      },
    )
    if (moved) this.deleteInBackground(name)
    return moved
  }

  deleteInBackground(path: string): void {
    const { log, deleteFolder } = this.#options
    this.#undeleted.delete(path)
    const deleting: Promise<void> = deleteFolder(path)
      .catch((error) => {
        this.#undeleted.add(path)
        log.warn(
          { err: error, path },
          'a sandbox could not be deleted completely; a dispatch to a full disk or the next start of the worker tries again',
        )
      })
      .finally(() => this.#deletions.delete(deleting))
    this.#deletions.add(deleting)
  }

  /** Tries the failed deletions again. */
  retry(): void {
    for (const path of [...this.#undeleted]) this.deleteInBackground(path)
  }

  async waitUntilSettled(): Promise<void> {
    await Promise.all(this.#deletions)
  }
}

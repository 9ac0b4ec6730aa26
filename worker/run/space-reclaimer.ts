/**
 * `SpaceReclaimer` discards retained sandboxes one after the other until the disk has room for a run.
 *
 * The reclaimer discards nothing in vain: it stops when the remaining sandboxes hold too little, or when a deletion
 * fails or gives no room, because then something else fills the disk. A discarded sandbox frees its space only when its
 * folder is deleted, so `run` waits for each deletion. Callers share one pass and may stop waiting; the pass goes on.
 */
import { type DiskSpace, describeShortage } from './free-disk.ts'
import type { Sandboxes } from './sandboxes.ts'

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

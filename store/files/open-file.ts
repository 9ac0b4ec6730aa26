/**
 * OpenFile notices that a file which this process has open was removed, replaced or truncated.
 *
 * LMDB notices none of these. It goes on writing to a removed file, and reading a truncated one ends the process with
 * SIGBUS. The file never shrinks while it is open, so a smaller size means that it was truncated.
 */
import { statSync } from 'node:fs'

export interface FileLoss {
  readonly is: 'removed' | 'replaced' | 'truncated'
  readonly reason: string
}

export class OpenFile {
  readonly #path: string
  readonly #device: bigint
  readonly #inode: bigint
  #size: bigint

  /** Call it when the file is open: it must exist, and an open file keeps its number. */
  constructor(path: string) {
    const { dev, ino, size } = statSync(path, { bigint: true })
    this.#path = path
    this.#device = dev
    this.#inode = ino
    this.#size = size
  }

  /** Returns what happened to the file; undefined while the path still names the open file. */
  findLoss(): FileLoss | undefined {
    const stats = this.#stat()
    if (stats === 'unknown') return undefined
    if (stats === undefined) return this.#loss('removed')
    if (stats.dev !== this.#device || stats.ino !== this.#inode) return this.#loss('replaced')
    if (stats.size < this.#size) return this.#loss('truncated')
    this.#size = stats.size
    return undefined
  }

  /** A failure other than a missing file proves nothing about the open file. */
  #stat() {
    try {
      return statSync(this.#path, { bigint: true, throwIfNoEntry: false })
    } catch {
      return 'unknown'
    }
  }

  #loss(is: FileLoss['is']): FileLoss {
    return { is, reason: `${this.#path} was ${is} while it was in use` }
  }
}

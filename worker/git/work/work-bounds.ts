/**
 * The bounds of the git steps that read what an agent has made: a few small objects may stand for gigabytes, and a few
 * folders for a billion files. Each call has a time of its own besides (`timeoutMs`).
 */
import { Transform, type TransformCallback } from 'node:stream'
import { MIB, machineMemoryBytes } from '../../sandbox/cgroup.ts'
import type { GitCall } from '../git.ts'

/** The files that a run's work may change, or add to those of its base. */
export const WORK_PATHS_MAX = 100_000
/** The commits, folders and files that a push may add. */
export const WORK_OBJECTS_MAX = 1_000_000
/** The bytes of all these objects, unpacked. */
export const WORK_UNPACKED_BYTES_MAX = 16 * 1024 ** 3
/** The bytes of a list of objects, and of commits that are written anew. */
export const WORK_LIST_BYTES_MAX = 512 * MIB

/** So many steps of a worker read untrusted objects at the same time. */
export const UNTRUSTED_STEPS_MAX = 2
/** All steps at the same time take a quarter of the machine, but no step gets less than git needs for large repositories. */
const MACHINE_SHARE = 1 / 4
const STEP_MEMORY_MIB_MIN = 1_024
const STEP_MEMORY_MIB_MAX = 2_048

/** The time of a step on this machine. */
export const LOCAL_MS_MAX = 60_000

export const untrustedCall = (folder: string, args: readonly string[]): GitCall => ({
  args,
  folder,
  isUntrusted: true,
  timeoutMs: LOCAL_MS_MAX,
})

/** The address space of one step. */
export function stepMemoryMib(machineBytes = machineMemoryBytes()): number {
  const share = Math.floor((machineBytes * MACHINE_SHARE) / UNTRUSTED_STEPS_MAX / MIB)
  return Math.min(Math.max(share, STEP_MEMORY_MIB_MIN), STEP_MEMORY_MIB_MAX)
}

export interface CountBounds {
  readonly bytesMax?: number
  /** Ends of lines, or of names. */
  readonly endsMax?: number
  /** The byte that ends each of them. */
  readonly end?: number
}

const NEWLINE = 0x0a

/** Counts what passes, and ends the stream with an error when it is too much. */
export class BoundedStream extends Transform {
  ends = 0
  #bytes = 0
  isOver = false
  readonly #bounds: CountBounds

  constructor(bounds: CountBounds) {
    super()
    this.#bounds = bounds
  }

  override _transform(piece: Buffer, _encoding: string, done: TransformCallback): void {
    const {
      bytesMax = Number.POSITIVE_INFINITY,
      endsMax = Number.POSITIVE_INFINITY,
      end = NEWLINE,
    } = this.#bounds
    this.#bytes += piece.length
    for (let at = piece.indexOf(end); at !== -1; at = piece.indexOf(end, at + 1)) this.ends += 1
    this.isOver = this.#bytes > bytesMax || this.ends > endsMax
    done(this.isOver ? new Error('it is too much') : null, piece)
  }
}

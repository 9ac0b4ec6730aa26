/**
 * Encodes records as msgpack whose repeated shapes ("structures") are stored once and referenced by number.
 *
 * lmdb-js can store structures itself, but in a separate transaction in the middle of encoding. If that write fails,
 * or joins a transaction that fails later, records that reference them are unreadable forever. So the codec only
 * collects structures, and the database writes them in the transaction of the first record that needs them. Numbers
 * are never reused: the list only grows.
 */
import type { Database } from 'lmdb'

/** Shapes beyond this number are written in full with each record. */
const STRUCTURES_MAX = 512

/** The used part of msgpackr's `Packr`; lmdb creates one per database that is opened with these options. */
interface Packr {
  encode(value: unknown): Uint8Array
  decode(bytes: Uint8Array): unknown
  structures?: (readonly string[])[] & { sharedLength?: number }
}

export interface Structures {
  readonly count: number
  readonly text: string
}

/** Options for the database whose encoder becomes the codec. `saved`: the stored structures. */
export function codecOptions(saved: string | undefined): object {
  return {
    encoding: 'msgpack',
    maxSharedStructures: STRUCTURES_MAX,
    getStructures: () => (saved === undefined ? undefined : JSON.parse(saved)),
    saveStructures: () => true,
  }
}

export class Codec {
  readonly #packr: Packr
  #durableCount = 0

  constructor(database: Database, saved: string | undefined) {
    // Every msgpack database has an encoder, but lmdb's types omit it, and msgpackr is no direct dependency.
    this.#packr = (database as unknown as { readonly encoder: Packr }).encoder
    // The first call makes the encoder load the saved structures; a number has no structure of its own.
    this.#packr.encode(0)
    this.#durableCount = saved === undefined ? 0 : (JSON.parse(saved) as unknown[]).length
  }

  encode(value: unknown): Uint8Array {
    return this.#packr.encode(value)
  }

  decode(bytes: Uint8Array): unknown {
    return this.#packr.decode(bytes)
  }

  /** Returns the structures to write with the next transaction, if new ones appeared since the last commit. */
  newStructures(): Structures | undefined {
    const all = this.#packr.structures ?? []
    const count = all.sharedLength ?? 0
    if (count <= this.#durableCount) return undefined
    return { count, text: JSON.stringify(all.slice(0, count)) }
  }

  onCommitted(structures: Structures): void {
    this.#durableCount = Math.max(this.#durableCount, structures.count)
  }
}

/**
 * Records as compact bytes: msgpack whose repeated shapes ("structures") are written down once and named by number.
 *
 * lmdb-js can keep such structures itself, but it saves them in a transaction of their own, in the middle of
 * encoding. If that write fails, or joins a transaction that fails later, records that name them are unreadable for
 * ever. So here the structures are only collected; the ledger writes them in the same transaction as the first
 * record that needs them. Numbers are never given twice: the list only grows.
 */
import type { Database } from 'lmdb'

/** Shapes beyond this many are written out in full with each record. */
const STRUCTURES_MAX = 512

/** The part of msgpackr's `Packr` that is used; lmdb makes one for each database it opens with these options. */
interface Packr {
  encode(value: unknown): Uint8Array
  decode(bytes: Uint8Array): unknown
  structures?: (readonly string[])[] & { sharedLength?: number }
}

export interface Structures {
  readonly count: number
  readonly text: string
}

/** Options for the database whose encoder becomes the codec. `saved` is what the last life of the store wrote down. */
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
    // Every msgpack database has one; lmdb's types leave it out, and msgpackr itself is no dependency of ours.
    this.#packr = (database as unknown as { readonly encoder: Packr }).encoder
    // The first encoding makes the encoder fetch the saved structures; a number has no structure of its own.
    this.#packr.encode(0)
    this.#durableCount = saved === undefined ? 0 : (JSON.parse(saved) as unknown[]).length
  }

  encode(value: unknown): Uint8Array {
    return this.#packr.encode(value)
  }

  decode(bytes: Uint8Array): unknown {
    return this.#packr.decode(bytes)
  }

  /** What has to be written with the next transaction, if shapes were met since the last that landed. */
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

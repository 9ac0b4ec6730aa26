/**
 * A table of the database whose rows carry checksums.
 *
 * Every read checks. A damaged row is noted in the list of damage; a look-up of it throws, and a walk yields the row
 * without its content, so that no damage reads as a row that was never written.
 */
import type { Database, RangeOptions } from 'lmdb'
import { messageOf } from '../../protocol/message-of.ts'
import type { DamageList } from './damage-list.ts'
import { isUnreadablePage } from './emergency-space.ts'
import { isSealed, RowSeal } from './file-sums.ts'

const KEY_BYTES_MAX = 512

/** lmdb throws for empty and overlong keys, even in reads. */
export function isKey(key: string): boolean {
  return key.length > 0 && Buffer.byteLength(key) <= KEY_BYTES_MAX
}

export interface TableRow {
  readonly key: string
  /** undefined: the row is damaged. */
  readonly value: Uint8Array | undefined
  /** The row as it is stored, with its checksum. */
  readonly stored: Uint8Array
}

interface UnsealedRow {
  readonly key: string
  readonly value: Uint8Array
}

export interface TableOptions {
  readonly name: string
  readonly damage: DamageList
  /** Rows of an earlier format, which have no checksum, may be there. */
  readonly mayBeUnsealed: () => boolean
  /** Keys whose rows never have a checksum. */
  readonly plainRows?: ReadonlySet<string>
  /** LMDB could not read a page. Returns the error for who reads. */
  readonly onUnreadable: (table: string, why: string) => Error
}

export class Table {
  readonly name: string
  readonly #rows: Database<Uint8Array, string>
  readonly #seal: RowSeal
  readonly #damage: DamageList
  readonly #mayBeUnsealed: () => boolean
  readonly #plainRows: ReadonlySet<string> | undefined
  readonly #onUnreadable: TableOptions['onUnreadable']

  constructor(rows: Database<Uint8Array, string>, options: TableOptions) {
    const { name, damage, mayBeUnsealed, plainRows } = options
    this.name = name
    this.#onUnreadable = options.onUnreadable
    this.#rows = rows
    this.#seal = new RowSeal(name)
    this.#damage = damage
    this.#mayBeUnsealed = mayBeUnsealed
    this.#plainRows = plainRows
  }

  /** Throws DamagedRecord. */
  get(key: string): Uint8Array | undefined {
    const row = this.#read(key)
    if (row === undefined) return undefined
    const content = this.#open(key, row)
    if (content === undefined) throw this.#damage.noteRow(this.name, key)
    return content
  }

  /** Throws DamagedRecord. */
  getText(key: string): string | undefined {
    const content = this.get(key)
    return content === undefined ? undefined : Buffer.from(content).toString('utf8')
  }

  doesExist(key: string): boolean {
    try {
      return this.#rows.doesExist(key)
    } catch (error) {
      throw this.#explained(error)
    }
  }

  *getKeys(range?: RangeOptions): Generator<string> {
    try {
      yield* this.#rows.getKeys(range)
    } catch (error) {
      throw this.#explained(error)
    }
  }

  *getRange(range?: RangeOptions): Generator<TableRow> {
    for (const { key, value } of this.#range(range)) {
      const content = this.#open(key, value)
      if (content === undefined) this.#damage.noteRow(this.name, key)
      yield { key, value: content, stored: value }
    }
  }

  /** Yields the rows without a checksum, in pages of about so many rows, so that no page holds a transaction open. */
  *getUnsealed(rowsMax: number): Generator<readonly UnsealedRow[]> {
    let range: RangeOptions = {}
    for (;;) {
      const rows = [...this.#range({ ...range, limit: rowsMax })]
      const last = rows.at(-1)
      if (last === undefined) return
      yield rows.filter(({ key, value }) => !isSealed(value) && this.#plainRows?.has(key) !== true)
      range = { start: last.key, exclusiveStart: true }
    }
  }

  count(): number {
    // lmdb's types name no field of the statistics.
    return (this.#rows.getStats() as { readonly entryCount: number }).entryCount
  }

  put(key: string, content: Uint8Array): Promise<boolean> {
    this.#damage.forgetRow(this.name, key)
    return this.#rows.put(key, this.#plainRows?.has(key) ? content : this.#seal.seal(key, content))
  }

  remove(key: string): Promise<boolean> {
    this.#damage.forgetRow(this.name, key)
    return this.#rows.remove(key)
  }

  #read(key: string): Uint8Array | undefined {
    try {
      return this.#rows.get(key)
    } catch (error) {
      throw this.#explained(error)
    }
  }

  *#range(range?: RangeOptions): Generator<{ readonly key: string; readonly value: Uint8Array }> {
    try {
      yield* this.#rows.getRange(range)
    } catch (error) {
      throw this.#explained(error)
    }
  }

  #explained(error: unknown): unknown {
    return isUnreadablePage(error) ? this.#onUnreadable(this.name, messageOf(error)) : error
  }

  /** Returns undefined for a damaged row. */
  #open(key: string, row: Uint8Array): Uint8Array | undefined {
    if (isSealed(row)) return this.#seal.open(key, row)
    return this.#mayBeUnsealed() || this.#plainRows?.has(key) ? row : undefined
  }
}

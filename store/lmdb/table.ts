/**
 * A table of the database whose rows carry checksums.
 *
 * Every read checks. A damaged row is noted in the list of damage; a look-up of it throws, and a walk yields the row
 * without its content, so that no damage reads as a row that was never written.
 */
import type { Database, RangeOptions } from 'lmdb'
import { isSealed, RowSeal } from './checksum.ts'
import type { DamageList } from './damage-list.ts'

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
}

export class Table {
  readonly name: string
  readonly #rows: Database<Uint8Array, string>
  readonly #seal: RowSeal
  readonly #damage: DamageList
  readonly #mayBeUnsealed: () => boolean
  readonly #plainRows: ReadonlySet<string> | undefined

  constructor(rows: Database<Uint8Array, string>, { name, damage, mayBeUnsealed, plainRows }: TableOptions) {
    this.name = name
    this.#rows = rows
    this.#seal = new RowSeal(name)
    this.#damage = damage
    this.#mayBeUnsealed = mayBeUnsealed
    this.#plainRows = plainRows
  }

  /** Throws DamagedRecord. */
  get(key: string): Uint8Array | undefined {
    const row = this.#rows.get(key)
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
    return this.#rows.doesExist(key)
  }

  getKeys(range?: RangeOptions): Iterable<string> {
    return this.#rows.getKeys(range)
  }

  *getRange(range?: RangeOptions): Generator<TableRow> {
    for (const { key, value } of this.#rows.getRange(range)) {
      const content = this.#open(key, value)
      if (content === undefined) this.#damage.noteRow(this.name, key)
      yield { key, value: content, stored: value }
    }
  }

  /** Yields the rows without a checksum, in pages of about so many rows, so that no page holds a transaction open. */
  *getUnsealed(rowsMax: number): Generator<readonly UnsealedRow[]> {
    let range: RangeOptions = {}
    for (;;) {
      const rows = [...this.#rows.getRange({ ...range, limit: rowsMax })]
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

  /** Returns undefined for a damaged row. */
  #open(key: string, row: Uint8Array): Uint8Array | undefined {
    if (isSealed(row)) return this.#seal.open(key, row)
    return this.#mayBeUnsealed() || this.#plainRows?.has(key) ? row : undefined
  }
}

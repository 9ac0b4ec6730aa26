/**
 * Checks a database file without LMDB: its pages, the names of its tables, and the checksum of each row.
 *
 * Intact rows are handed on, with those of pages that no table leads to any more.
 */
import * as lmdb from 'lmdb'
import type { Meta } from './data-file.ts'
import { isSealed, RowSeal } from './file-sums.ts'
import { FORMAT, FORMAT_KEY, PLAIN_ROWS, SEALED } from './origin.ts'
import { FREE, type LostLeaf, MAIN, type PageFault, PageWalk } from './page-walk.ts'
import { isTableName, missingTables, TABLE } from './table-names.ts'

export interface DamagedRow {
  readonly table: string
  readonly key: string
}

/** An intact row. */
export interface CheckedRow {
  readonly table: string
  readonly key: string
  /** As it is stored, with its checksum. Valid during the call only. */
  readonly row: Buffer
  readonly content: Uint8Array
}

export interface DatabaseCheckOptions {
  readonly onRow?: (row: CheckedRow) => void
  /** Asked before each page: the check ends when it returns false. */
  readonly mayGoOn?: () => boolean
  /** Only the rows of this table are read. */
  readonly table?: string
}

/** Rows without a checksum that are remembered: in a database of an earlier format every row is one. */
const UNSEALED_MAX = 10_000
/** Keys are written as text, in which bytes below this one are escaped. */
const TEXT_MIN = 0x20
/** lmdb's types omit it. */
const { bufferToKeyValue } = lmdb as unknown as { bufferToKeyValue(key: Buffer): unknown }

export class DatabaseCheck {
  readonly #walk: PageWalk
  readonly #options: DatabaseCheckOptions
  readonly #seals = new Map<string, RowSeal>()
  readonly #tables = new Set<string>()
  readonly #faults: PageFault[] = []
  readonly #damaged: DamagedRow[] = []
  readonly #unsealed: DamagedRow[] = []
  #format: number | undefined
  #isSealed = false
  #isComplete = false

  constructor(fd: number, meta: Meta, options: DatabaseCheckOptions = {}) {
    this.#options = options
    this.#walk = new PageWalk(fd, meta, {
      onTable: (name) => this.#tables.add(name),
      onRow: (table, key, row) => this.#onRow(table, key, row),
      onFault: (fault) => this.#faults.push(fault),
      mayGoOn: options.mayGoOn ?? (() => true),
      skips: (name) => name !== MAIN && options.table !== undefined && name !== options.table,
    })
  }

  /** Returns whether the check came to the end. */
  run(): boolean {
    this.#isComplete = this.#walk.run()
    return this.#isComplete
  }

  /**
   * Hands on the rows of leaves that lie below damaged branches. Their checksums tell of which table they are.
   *
   * LMDB may forget pages that it has replaced, so of leaves with the same keys the newest counts, and the leaves of a
   * table count only when they are exactly as many as are missing: no record comes back older than it was.
   */
  visitLostRows(): void {
    const tables = [...new Set([...Object.values(TABLE), ...this.#tables])]
    const found = new Map<string, LostLeaf[]>()
    for (const leaf of this.#walk.lostLeaves()) {
      const table = tables.find((name) => leaf.rows.some(({ key, value }) => this.#isRowOf(name, key, value)))
      if (table !== undefined) found.set(table, [...(found.get(table) ?? []), leaf])
    }
    for (const [table, leaves] of found) {
      const newest = newestOf(leaves)
      if (newest.length !== this.#walk.missingLeaves(table)) continue
      for (const { rows } of newest) for (const { key, value } of rows) this.#onRow(table, key, value)
    }
  }

  #isRowOf(table: string, key: Buffer, row: Buffer): boolean {
    return isSealed(row) && this.#open(table, key, row) !== undefined
  }

  /** The format of the tables; undefined when the row with it was not found. */
  get format(): number | undefined {
    return this.#format
  }

  faults(): readonly PageFault[] {
    if (!this.#isOwn()) return this.#faults
    const unknown = [...this.#tables].filter((name) => name !== FREE && name !== MAIN && !isTableName(name))
    const missing = this.#isComplete && this.#isSealed ? missingTables(this.#tables) : []
    return [
      ...this.#faults,
      ...unknown.map((name) => ({
        page: 0,
        table: MAIN,
        message: `names a table of no known name: ${name}`,
      })),
      ...missing.map((name) => ({ page: 0, table: MAIN, message: `does not name the table ${name}` })),
    ]
  }

  damagedRows(): readonly DamagedRow[] {
    if (!this.#isOwn()) return []
    return this.#isSealed ? [...this.#damaged, ...this.#unsealed] : this.#damaged
  }

  /** Whether tables and rows are such as this program knows. Opening a database of another says what it is. */
  #isOwn(): boolean {
    return this.#format !== undefined && this.#format <= FORMAT
  }

  #onRow(table: string, key: Buffer, row: Buffer): void {
    const text = textOf(key)
    const content = this.#open(table, key, row)
    if (text === undefined || content === undefined) {
      this.#damaged.push({ table, key: text ?? key.toString('latin1') })
      return
    }
    if (table === TABLE.meta && text === SEALED) this.#isSealed = true
    if (table === TABLE.meta && text === FORMAT_KEY) this.#format = Number(row.toString('latin1'))
    if (!isSealed(row)) this.#noteUnsealed(table, text)
    this.#options.onRow?.({ table, key: text, row, content })
  }

  /** Returns undefined for a damaged row. */
  #open(table: string, key: Buffer, row: Buffer): Uint8Array | undefined {
    if (!isSealed(row)) return row
    const text = textOf(key)
    return text === undefined ? undefined : this.#sealOf(table).open(text, row)
  }

  #noteUnsealed(table: string, key: string): void {
    const isPlain = table === TABLE.meta && PLAIN_ROWS.has(key)
    if (!isPlain && this.#unsealed.length < UNSEALED_MAX) this.#unsealed.push({ table, key })
  }

  #sealOf(table: string): RowSeal {
    const known = this.#seals.get(table)
    if (known !== undefined) return known
    const seal = new RowSeal(table)
    this.#seals.set(table, seal)
    return seal
  }
}

/** Returns the leaves of which no newer one holds keys of the same range. */
function newestOf(leaves: readonly LostLeaf[]): LostLeaf[] {
  const taken: { readonly leaf: LostLeaf; readonly low: Buffer; readonly high: Buffer }[] = []
  for (const leaf of [...leaves].sort((a, b) => b.transaction - a.transaction)) {
    const [low, high] = [leaf.rows[0]?.key, leaf.rows.at(-1)?.key]
    if (low === undefined || high === undefined) continue
    const isOlder = taken.some(
      (each) => Buffer.compare(low, each.high) <= 0 && Buffer.compare(high, each.low) >= 0,
    )
    if (!isOlder) taken.push({ leaf, low, high })
  }
  return taken.map(({ leaf }) => leaf)
}

/** Returns undefined for a key that is no text. */
function textOf(key: Buffer): string | undefined {
  if (isPlainText(key)) return key.toString('utf8')
  const value = bufferToKeyValue(key)
  return typeof value === 'string' ? value : undefined
}

function isPlainText(key: Buffer): boolean {
  for (let at = 0; at < key.length; at++) if ((key[at] ?? 0) < TEXT_MIN) return false
  return true
}

/**
 * Writes the intact rows of a damaged database into a new one, each with its checksum.
 *
 * The new database has every table that a start expects. Rows are read without LMDB. What is damaged is left out, and is
 * returned. Rows that no table leads to any more are taken as well, unless the list of free pages is damaged: then
 * nothing tells them from removed rows.
 */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Database, RootDatabase } from 'lmdb'
import { RESTORE_CURE } from '../../core/damage.ts'
import { StoreUnreadable } from '../errors.ts'
import { inspectDataFile } from './data-file.ts'
import { type DamagedRow, DatabaseCheck } from './database-check.ts'
import { isSealed, RowSeal } from './file-sums.ts'
import { openRoot } from './open-environment.ts'
import { ALL_SEALED, FORMAT, FORMAT_KEY, INSTALLATION, SEALED } from './origin.ts'
import { FREE, type PageFault } from './page-walk.ts'
import { CODEC_TABLE, TABLE } from './table-names.ts'

const BATCH_BYTES = 4 * 1024 * 1024
const MAP_BYTES = 64 * 1024 ** 3

export interface Salvage {
  readonly kept: number
  readonly faults: readonly PageFault[]
  readonly damagedRows: readonly DamagedRow[]
}

export class SalvagedDatabase {
  readonly #root: RootDatabase
  readonly #tables = new Map<string, Database<Uint8Array, string>>()
  #waiting: { readonly table: string; readonly key: string; readonly row: Uint8Array }[] = []
  #waitingBytes = 0

  /** Creates the database in a new folder. */
  constructor(folder: string) {
    this.#root = openRoot(folder, MAP_BYTES)
    for (const name of [...Object.values(TABLE), CODEC_TABLE]) this.#table(name)
  }

  /** Copies what is intact. Throws StoreUnreadable when no record could be read without what is lost. */
  copyFrom(folder: string, installation: string | undefined): Salvage {
    const fd = openSync(join(folder, 'data.mdb'), 'r')
    try {
      const file = inspectDataFile(fd)
      if (file.is !== 'whole') throw beyondRepair(folder, 'its two first pages are')
      let kept = 0
      let mayExist = false
      const check = new DatabaseCheck(fd, file.meta, {
        onRow: ({ table, key, row }) => {
          if (mayExist && this.has(table, key)) return
          kept++
          this.put(table, key, Uint8Array.from(row))
        },
      })
      check.run()
      const faults = check.faults()
      this.flush()
      mayExist = true
      if (faults.length > 0 && !faults.some(({ table }) => table === FREE)) check.visitLostRows()
      this.flush()
      if (!this.has(TABLE.meta, 'structures') && this.#hasRecords())
        throw beyondRepair(folder, 'the shapes of its records are')
      this.#completeOrigin(installation)
      return { kept, faults, damagedRows: check.damagedRows() }
    } finally {
      closeSync(fd)
    }
  }

  has(table: string, key: string): boolean {
    return this.#table(table).doesExist(key)
  }

  keys(table: string, range: { readonly start?: string; readonly end?: string } = {}): string[] {
    return [...this.#table(table).getKeys(range)]
  }

  /** Returns a row without its checksum. */
  content(table: string, key: string): Uint8Array | undefined {
    const row = this.#table(table).get(key)
    return row === undefined || !isSealed(row) ? row : new RowSeal(table).open(key, row)
  }

  put(table: string, key: string, row: Uint8Array): void {
    this.#waiting.push({ table, key, row })
    this.#waitingBytes += row.length
    if (this.#waitingBytes >= BATCH_BYTES) this.flush()
  }

  putContent(table: string, key: string, content: Uint8Array): void {
    this.put(table, key, new RowSeal(table).seal(key, content))
  }

  flush(): void {
    const rows = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    for (const { table } of rows) this.#table(table)
    this.#root.transactionSync(() => {
      for (const { table, key, row } of rows) this.#table(table).putSync(key, row)
    })
  }

  async close(): Promise<void> {
    this.flush()
    await this.#root.flushed
    await this.#root.close()
  }

  #hasRecords(): boolean {
    return this.keys(TABLE.runs).length > 0 || this.keys(TABLE.keyValues).length > 0
  }

  /** Rows of the origin that are lost, and those without a checksum, which a flipped bit may have changed. */
  #completeOrigin(installation: string | undefined): void {
    if (installation !== undefined) this.put(TABLE.meta, INSTALLATION, Buffer.from(installation))
    const isSealed = this.has(TABLE.meta, SEALED) || !this.has(TABLE.meta, FORMAT_KEY)
    if (!isSealed) return
    this.put(TABLE.meta, FORMAT_KEY, Buffer.from(String(FORMAT)))
    this.putContent(TABLE.meta, SEALED, Buffer.from(ALL_SEALED))
  }

  #table(name: string): Database<Uint8Array, string> {
    const known = this.#tables.get(name)
    if (known !== undefined) return known
    const table = this.#root.openDB<Uint8Array, string>({ name, encoding: 'binary' })
    this.#tables.set(name, table)
    return table
  }
}

const beyondRepair = (folder: string, what: string): StoreUnreadable =>
  new StoreUnreadable(
    `nothing of the database in ${folder} can be kept, because ${what} damaged; ${RESTORE_CURE}`,
  )

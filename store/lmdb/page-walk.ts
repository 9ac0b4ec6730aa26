/**
 * Walks the pages of a database file without LMDB, which ends the process on a damaged page, or reads past it.
 *
 * The walk follows every pointer and believes none: page numbers, bounds of nodes, the order of keys, the counts of each
 * table, and that no page is used twice or also free. What it finds damaged it names and leaves out. LMDB itself keeps no
 * checksums: a bit in the middle of a value is found by the checksum of its row.
 */
import { type Meta, NUMBER_KEYS, readTree, type TableTree, TREE_BYTES } from './data-file.ts'
import {
  BIG,
  BRANCH,
  childAt,
  countOf,
  DatabasePages,
  DEPTH_MAX,
  Fault,
  flagsOf,
  freePages,
  isBetween,
  keyAt,
  LEAF,
  NODE_HEADER_BYTES,
  nameOf,
  nodeAt,
  numberAt,
  OVERFLOW,
  PAGE_HEADER_BYTES,
  TABLE_NODE,
} from './page.ts'

export interface PageFault {
  readonly page: number
  /** The table, or `MAIN` for the list of tables and `FREE` for that of free pages. */
  readonly table: string
  readonly message: string
  /** The keys that may lie there: from the low one on, and below the high one. Absent where that is not known. */
  readonly keys?: { readonly low: string | undefined; readonly high: string | undefined }
}

export interface PageVisitor {
  onTable(name: string): void
  /** Key and value are valid during the call only. */
  onRow(table: string, key: Buffer, value: Buffer): void
  onFault(fault: PageFault): void
  /** Asked before each page: the walk ends when it returns false. */
  mayGoOn(): boolean
  /** Whether the pages of a table are left out. */
  skips?(table: string): boolean
}

/** A leaf that no table leads to. */
export interface LostLeaf {
  /** The transaction that wrote it. */
  readonly transaction: number
  readonly rows: readonly { readonly key: Buffer; readonly value: Buffer }[]
}

export const FREE = 'FREE'
export const MAIN = 'MAIN'
const NOT_IN_ORDER = 'has keys that do not belong there'
/** The place in a page of the transaction that wrote it. */
const TRANSACTION_AT = 8
/** Uses of a page. */
const NOT_SEEN = 0
const LIVE = 1
const IS_FREE = 2

class Stopped extends Error {}

/** A table while it is walked, with what was found of it. */
interface TableWalk {
  readonly name: string
  readonly tree: TableTree
  branches: number
  leaves: number
  /** Leaves that cannot be read. */
  damagedLeaves: number
  overflows: number
  rows: number
}

/** The place of a page in its table: its keys are at or above `low`, and below `high`. */
interface PagePlace {
  readonly page: number
  readonly depth: number
  readonly low: Buffer | undefined
  readonly high: Buffer | undefined
}

export class PageWalk {
  readonly #meta: Meta
  readonly #file: DatabasePages
  readonly #visitor: PageVisitor
  readonly #use: Uint8Array
  readonly #missing = new Map<string, number>()
  #faults = 0

  constructor(fd: number, meta: Meta, visitor: PageVisitor) {
    this.#file = new DatabasePages(fd, meta)
    this.#visitor = visitor
    this.#meta = meta
    this.#use = new Uint8Array(meta.lastPage + 1)
  }

  /** Returns whether the walk came to the end. */
  run(): boolean {
    try {
      // First, so that a pointer to a free page is known for wrong.
      this.#walkTable(FREE, this.#meta.free)
      this.#walkTable(MAIN, this.#meta.main)
      return true
    } catch (error) {
      if (error instanceof Stopped) return false
      throw error
    }
  }

  /** Returns how many leaves of a table lie below damaged branches. */
  missingLeaves(table: string): number {
    return this.#missing.get(table) ?? 0
  }

  /** Yields the leaves that no table leads to and that are not free. Some may be older than what replaced them. */
  *lostLeaves(): Generator<LostLeaf> {
    for (let page = 2; page <= this.#meta.lastPage; page++) {
      if (this.#use[page] !== NOT_SEEN) continue
      try {
        const bytes = this.#file.readPage(page)
        if (flagsOf(bytes) !== LEAF) continue
        const rows: LostLeaf['rows'][number][] = []
        this.#visitNodes(
          bytes,
          page,
          () => {},
          (key, value) => rows.push({ key, value }),
        )
        yield { transaction: numberAt(bytes, TRANSACTION_AT), rows }
      } catch (error) {
        if (!(error instanceof Fault)) throw error
      }
    }
  }

  #walkTable(name: string, tree: TableTree): void {
    const table: TableWalk = { name, tree, branches: 0, leaves: 0, damagedLeaves: 0, overflows: 0, rows: 0 }
    const before = this.#faults
    this.#visitor.onTable(name)
    if (this.#visitor.skips?.(name) === true) return
    if (tree.flags !== (name === FREE ? NUMBER_KEYS : 0)) this.#fault(name, 0, 'is of no known form')
    if (tree.root !== undefined)
      this.#tryPage(table, { page: tree.root, depth: 1, low: undefined, high: undefined })
    this.#missing.set(name, tree.leaves - table.leaves - table.damagedLeaves)
    const isWhole =
      table.rows === tree.rows &&
      table.branches === tree.branches &&
      table.leaves === tree.leaves &&
      table.overflows === tree.overflows
    if (!isWhole && (before === this.#faults || table.rows < tree.rows))
      this.#fault(name, tree.root ?? 0, `leads to ${table.rows} of ${tree.rows} rows`)
  }

  /** Walks what lies below a page, and names it when it is damaged. */
  #tryPage(table: TableWalk, place: PagePlace): void {
    if (!this.#visitor.mayGoOn()) throw new Stopped()
    const leaves = table.leaves
    try {
      this.#claim(place.page, 1, LIVE)
      const bytes = this.#file.readPage(place.page)
      if (flagsOf(bytes) === BRANCH) this.#walkBranch(table, place, bytes)
      else this.#walkLeaf(table, place, bytes)
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      if (place.depth === table.tree.depth && table.leaves === leaves) table.damagedLeaves++
      this.#fault(table.name, error.page, error.message, place)
    }
  }

  #walkBranch(table: TableWalk, { page, depth, low, high }: PagePlace, bytes: Buffer): void {
    if (depth >= table.tree.depth || depth >= DEPTH_MAX) throw new Fault(page, 'lies too deep in its table')
    table.branches++
    const children: { readonly page: number; readonly low: Buffer | undefined }[] = []
    for (let i = 0; i < countOf(bytes); i++) {
      const at = nodeAt(bytes, page, i)
      // The first key of a branch stands for everything below the second.
      const key = i === 0 ? low : keyAt(bytes, page, at)
      const bounds = { low: children.at(-1)?.low, isAbove: i > 1, high }
      if (i > 0 && key !== undefined && !isBetween(table.tree, key, bounds))
        throw new Fault(page, NOT_IN_ORDER)
      children.push({ page: childAt(bytes, at), low: key })
    }
    for (const [i, child] of children.entries())
      this.#tryPage(table, {
        page: child.page,
        depth: depth + 1,
        low: child.low,
        high: children[i + 1]?.low ?? high,
      })
  }

  #walkLeaf(table: TableWalk, place: PagePlace, bytes: Buffer): void {
    const { page, depth, low, high } = place
    if (depth !== table.tree.depth) throw new Fault(page, 'lies at the wrong depth of its table')
    table.leaves++
    let before: Buffer | undefined
    let isInOrder = true
    const tables: { readonly name: string; readonly tree: TableTree }[] = []
    const onFault = (error: Fault) => this.#fault(table.name, error.page, error.message, place)
    this.#visitNodes(bytes, page, onFault, (key, value, isTable, pages) => {
      isInOrder &&= isBetween(table.tree, key, { low: before ?? low, isAbove: before !== undefined, high })
      before = key
      table.rows++
      table.overflows += pages
      if (isTable !== (table.name === MAIN) || (isTable && value.length !== TREE_BYTES))
        throw new Fault(page, 'mixes tables and rows')
      if (isTable) tables.push({ name: nameOf(key), tree: readTree(value, 0) })
      else if (table.name === FREE)
        for (const { first, count } of freePages(page, value)) this.#claim(first, count, IS_FREE)
      else this.#visitor.onRow(table.name, key, value)
    })
    // The rows are read all the same: their checksums tell whether they are rows of this table.
    if (!isInOrder) this.#fault(table.name, page, NOT_IN_ORDER, place)
    for (const each of tables) this.#walkTable(each.name, each.tree)
  }

  /** Calls `visit` for each node of a leaf. A damaged node is a fault of its own. */
  #visitNodes(
    bytes: Buffer,
    page: number,
    onFault: (error: Fault) => void,
    visit: (key: Buffer, value: Buffer, isTable: boolean, overflowPages: number) => void,
  ): void {
    for (let i = 0; i < countOf(bytes); i++) {
      try {
        const at = nodeAt(bytes, page, i)
        const key = keyAt(bytes, page, at)
        const { value, isTable, pages } = this.#valueAt(bytes, page, at, at + NODE_HEADER_BYTES + key.length)
        visit(key, value, isTable, pages)
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        onFault(error)
      }
    }
  }

  #valueAt(bytes: Buffer, page: number, at: number, start: number) {
    const size = bytes.readUInt32LE(at)
    const flags = bytes.readUInt16LE(at + 4)
    if (flags === BIG) return { ...this.#readOverflow(bytes, page, start, size), isTable: false }
    if (flags !== 0 && flags !== TABLE_NODE) throw new Fault(page, 'has a row of no known form')
    if (start + size > bytes.length) throw new Fault(page, 'has a row that ends beyond the page')
    return { value: bytes.subarray(start, start + size), isTable: flags === TABLE_NODE, pages: 0 }
  }

  #readOverflow(bytes: Buffer, page: number, at: number, size: number) {
    if (at + 24 > bytes.length) throw new Fault(page, 'has a row that ends beyond the page')
    const [first, pages] = [numberAt(bytes, at), numberAt(bytes, at + 16)]
    const pageBytes = this.#meta.pageBytes
    if (pages !== Math.floor((PAGE_HEADER_BYTES - 1 + size) / pageBytes) + 1)
      throw new Fault(page, 'names a wrong number of pages for a row')
    this.#claim(first, pages, LIVE)
    const value = this.#file.read(first, PAGE_HEADER_BYTES + size)
    const isOwn =
      numberAt(value, 0) === first && flagsOf(value) === OVERFLOW && value.readUInt32LE(20) === pages
    if (!isOwn) throw new Fault(first, 'is not the page of a long row that it should be')
    return { value: value.subarray(PAGE_HEADER_BYTES), pages }
  }

  #claim(first: number, pages: number, use: number): void {
    for (let page = first; page < first + pages; page++) {
      if (!(page >= 2 && page <= this.#meta.lastPage)) throw new Fault(first, 'lies outside of the database')
      const known = this.#use[page]
      if (known !== NOT_SEEN)
        throw new Fault(page, known === use ? 'is used twice' : 'is used, and also in the list of free pages')
      this.#use[page] = use
    }
  }

  #fault(table: string, page: number, message: string, place?: PagePlace): void {
    this.#faults++
    const textOf = (key: Buffer | undefined) => key?.toString('utf8')
    const keys = place === undefined ? {} : { keys: { low: textOf(place.low), high: textOf(place.high) } }
    this.#visitor.onFault({ page, table, message, ...keys })
  }
}

/**
 * The LMDB environment and its tables: opened, opened again after a failed write, closed.
 *
 * `overlappingSync: false` makes a transaction visible only when it is on disk, which every promise of the ledger
 * rests on. Values are bytes; what they mean is the codec's and the shelves' business. After a failed commit the
 * environment must not be written again (lmdb-js then neither answers nor lets go of its lock), hence `reopen`.
 */
import { chmodSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { type Database, open, type RootDatabase } from 'lmdb'
import { codeOf, StoreTooNew, StoreUnreadable, textOf } from '../failures.ts'
import { Codec, codecOptions } from './codec.ts'

/** The layout of the tables. A program refuses a higher number than it knows. */
export const FORMAT = 1
const TABLES_MAX = 64
/** Address space only; the file grows as needed. */
const MAP_BYTES = 64 * 1024 ** 3
const MAP_BYTES_SMALL = 4 * 1024 ** 3
const ENOMEM = 12
const LIFE = 'life:'
const KEY_BYTES_MAX = 512

export type Table = Database<Uint8Array, string>
export type TextTable = Database<string, string>

export interface TablesOptions {
  readonly folder: string
  readonly mapBytes?: number
}

/** Every handle that dies when the environment is opened again. */
interface Handles {
  readonly root: RootDatabase
  readonly meta: TextTable
  readonly runs: Table
  readonly byStatus: Table
  readonly byTicket: Table
  readonly lives: Map<string, Table>
}

export class Tables {
  readonly folder: string
  readonly codec: Codec
  readonly #mapBytes: number
  #handles: Handles
  #beforeCommit: (() => void) | undefined

  /** Throws StoreTooNew, StoreUnreadable, or what the file system said. */
  constructor(options: TablesOptions) {
    this.folder = options.folder
    this.#mapBytes = options.mapBytes ?? MAP_BYTES
    const fresh = prepareFolder(this.folder)
    const root = openRoot(this.folder, this.#mapBytes)
    try {
      this.#handles = openHandles(root)
      checkFormat(this.folder, this.#handles.meta)
      const saved = this.#handles.meta.get('structures')
      this.codec = new Codec(root.openDB({ name: 'codec', ...codecOptions(saved) }), saved)
    } catch (error) {
      void root.close()
      throw error
    }
    if (fresh) syncFolder(this.folder)
  }

  get meta(): TextTable {
    return this.#handles.meta
  }
  get runs(): Table {
    return this.#handles.runs
  }
  get byStatus(): Table {
    return this.#handles.byStatus
  }
  get byTicket(): Table {
    return this.#handles.byTicket
  }

  /** The table of a kind that has been written before. */
  life(kind: string): Table | undefined {
    return this.#handles.lives.get(kind)
  }

  kinds(): string[] {
    return [...this.#handles.lives.keys()].sort()
  }

  /** Makes a kind's table. A transaction of its own: only while no other is open or in flight. */
  addLife(kind: string): Table {
    const table = openBytes(this.#handles.root, LIFE + kind)
    this.#handles.lives.set(kind, table)
    return table
  }

  /** Called at the end of each turn in which something was put, as the last chance to put more. */
  onBeforeCommit(run: () => void): void {
    this.#beforeCommit = run
    this.#handles.root.on('beforecommit', run)
  }

  async reopen(): Promise<void> {
    await this.#handles.root.close()
    this.#handles = openHandles(openRoot(this.folder, this.#mapBytes))
    if (this.#beforeCommit !== undefined) this.#handles.root.on('beforecommit', this.#beforeCommit)
  }

  async copy(folder: string): Promise<void> {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    await this.#handles.root.backup(folder, false)
    const file = join(folder, 'data.mdb')
    chmodSync(file, 0o600)
    syncFolder(file)
    syncFolder(folder)
  }

  async close(): Promise<void> {
    await this.#handles.root.close()
  }
}

/** lmdb throws at empty and overlong keys, even when reading. */
export function isKey(key: string): boolean {
  return key.length > 0 && Buffer.byteLength(key) <= KEY_BYTES_MAX
}

/** Answers whether the database is new. */
function prepareFolder(folder: string): boolean {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  return !existsSync(join(folder, 'data.mdb'))
}

function openRoot(folder: string, mapSize: number): RootDatabase {
  try {
    const root = open({
      path: folder,
      // Else a folder whose name has a dot in it would be taken for a file.
      noSubdir: false,
      maxDbs: TABLES_MAX,
      mapSize,
      overlappingSync: false,
      encoding: 'binary',
      // Honoured by the add-on, missing from its types: the mode of new files.
      ...{ permissionsMode: 0o600 },
    })
    for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(folder, file), 0o600)
    return root
  } catch (error) {
    if (codeOf(error) === ENOMEM && mapSize > MAP_BYTES_SMALL) return openRoot(folder, MAP_BYTES_SMALL)
    throw new StoreUnreadable(`cannot open the database in ${folder}: ${textOf(error)}`, { cause: error })
  }
}

function openHandles(root: RootDatabase): Handles {
  const lives = new Map<string, Table>()
  const names = [...root.getKeys()].map(String).filter((name) => name.startsWith(LIFE))
  for (const name of names) lives.set(name.slice(LIFE.length), openBytes(root, name))
  return {
    root,
    meta: root.openDB<string, string>({ name: 'meta', encoding: 'string' }),
    runs: openBytes(root, 'runs'),
    byStatus: openBytes(root, 'runs-by-status'),
    byTicket: openBytes(root, 'runs-by-ticket'),
    lives,
  }
}

function openBytes(root: RootDatabase, name: string): Table {
  return root.openDB<Uint8Array, string>({ name, encoding: 'binary' })
}

function checkFormat(folder: string, meta: TextTable): void {
  const text = meta.get('format')
  if (text === undefined) {
    meta.putSync('format', String(FORMAT))
    return
  }
  const found = Number(text)
  if (!Number.isInteger(found) || found < 1) {
    throw new StoreUnreadable(`the database in ${folder} names no format; it was not made by switchyard`)
  }
  if (found > FORMAT) throw new StoreTooNew(folder, found, FORMAT)
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

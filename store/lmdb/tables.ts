/**
 * Opens, reopens and closes the LMDB environment and its tables.
 *
 * `overlappingSync: false` makes a transaction visible only when it is on disk, which every guarantee of the database
 * depends on. Values are bytes; the codec and the table classes interpret them. After a failed commit the environment
 * must not be written again (lmdb-js then neither answers nor releases its lock), so `reopen` replaces it.
 */
import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import type { FoundDatabase } from '../../core/installation.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { DatabaseDamaged, StoreClosed } from '../errors.ts'
import { Codec, codecOptions } from './codec.ts'
import { DamageList } from './damage-list.ts'
import { syncFolder } from './emergency-space.ts'
import { findUnopened, openRoot, prepareFolder } from './open-environment.ts'
import { checkFormat, FORMAT, findInstallation, PLAIN_ROWS, SEALED, writeOrigin } from './origin.ts'
import { PAGE_BYTES } from './preallocation.ts'
import { checkBeforeUse } from './start-check.ts'
import { Table } from './table.ts'
import { CODEC_TABLE, SNAPSHOT_PREFIX, TABLE } from './table-names.ts'

/** Address space only; the file grows as needed. */
const MAP_BYTES = 64 * 1024 ** 3
/** The end of the name of a folder with a copy that is not whole yet. */
export const UNFINISHED_COPY = '.part'

export interface TablesOptions {
  readonly folder: string
  readonly mapBytes?: number
  readonly clock: Pick<Clock, 'monotonic'>
  /**
   * Returns the id of the installation to which the database belongs. Throws when the database must not be used;
   * nothing is created then.
   */
  readonly identifyDatabase: (found: FoundDatabase) => string
}

/** The handles that become invalid when the environment is reopened. */
interface Handles {
  readonly root: RootDatabase
  readonly meta: Table
  readonly runs: Table
  readonly byStatus: Table
  readonly byTicket: Table
  readonly keyValues: Table
  readonly smallLogs: Table
  readonly eventChunks: Table
  readonly eventFiles: Table
  readonly fileSums: Table
  readonly snapshots: Map<string, Table>
}

export class Tables {
  readonly folder: string
  readonly codec: Codec
  /** The format of the database as it was found; a new database has the current format. */
  readonly format: number
  /** The id of the installation to which the database belongs. */
  readonly installation: string
  readonly damage = new DamageList()
  /** The last use of the database did not end in order. */
  readonly wasInterrupted: boolean
  readonly #mapBytes: number
  /** Rows without a checksum, from before format 5, may be there. */
  mayBeUnsealed = true
  #opened: Handles | undefined
  #beforeCommit: (() => void) | undefined
  #onDamaged: (reason: string) => void = () => undefined

  /** Throws DatabaseLost, StoreTooNew, StoreUnreadable, StoreFull, or an error of the file system. */
  constructor(options: TablesOptions) {
    this.folder = options.folder
    this.#mapBytes = options.mapBytes ?? MAP_BYTES
    const { identifyDatabase } = options
    const unopened = findUnopened(this.folder)
    const newInstallation = unopened === undefined ? undefined : identifyDatabase(unopened)
    const fresh = prepareFolder(this.folder)
    const { damaged, wasInterrupted } = checkBeforeUse(this.folder, options.clock)
    this.wasInterrupted = wasInterrupted
    const root = openRoot(this.folder, this.#mapBytes)
    for (const { table, key } of damaged) this.damage.noteRow(table, key)
    try {
      // Checked before the tables are created, because newer data may use other names and layouts.
      const format = checkFormat(this.folder, root)
      this.installation = newInstallation ?? identifyDatabase(findInstallation(root, format))
      this.#opened = this.#openHandles(root)
      this.format = format ?? FORMAT
      writeOrigin(root, { format: this.format, installation: this.installation })
      this.mayBeUnsealed = this.meta.get(SEALED) === undefined
      const saved = this.meta.getText('structures')
      this.codec = new Codec(root.openDB({ name: CODEC_TABLE, ...codecOptions(saved) }), saved)
    } catch (error) {
      void root.close()
      throw error
    }
    if (fresh) for (const each of [this.folder, dirname(this.folder)]) syncFolder(each)
  }

  /** Using a closed environment would crash the process, so this getter throws instead while there is none. */
  get #handles(): Handles {
    if (this.#opened !== undefined) return this.#opened
    throw new StoreClosed('the database is closed, or just being opened again; ask again in a moment')
  }

  get isOpen(): boolean {
    return this.#opened !== undefined
  }

  get meta(): Table {
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
  get keyValues(): Table {
    return this.#handles.keyValues
  }
  /** Chunks of the events of small logs, by run and index. */
  get smallLogs(): Table {
    return this.#handles.smallLogs
  }
  /** Chunks of buffered events, by run and index. */
  get eventChunks(): Table {
    return this.#handles.eventChunks
  }
  /** As text, the valid part of each run's event file, by run. */
  get eventFiles(): Table {
    return this.#handles.eventFiles
  }
  /** As text, the checksums of the parts of each run's event file, by run and index. */
  get fileSums(): Table {
    return this.#handles.fileSums
  }

  /** Returns the table of a kind that was written before. */
  snapshotsOf(kind: string): Table | undefined {
    return this.#handles.snapshots.get(kind)
  }

  kinds(): string[] {
    return [...this.#handles.snapshots.keys()].sort()
  }

  /** Creates the table of a kind. Call it only while no other transaction is open or in flight. */
  addSnapshots(kind: string): Table {
    const table = this.#openTable(this.#handles.root, SNAPSHOT_PREFIX + kind)
    this.#handles.snapshots.set(kind, table)
    return table
  }

  /** Sets the function to call at the end of each turn of the event loop with writes: the last chance to write more. */
  onBeforeCommit(run: () => void): void {
    this.#beforeCommit = run
    this.#handles.root.on('beforecommit', run)
  }

  /** `checkFile` throws when the file must not be opened. LMDB would create a new database where it is missing. */
  async reopen(checkFile: () => void): Promise<void> {
    const { root } = this.#handles
    this.#opened = undefined
    await root.close()
    checkFile()
    this.#opened = this.#openHandles(openRoot(this.folder, this.#mapBytes))
    if (this.#beforeCommit !== undefined) this.#handles.root.on('beforecommit', this.#beforeCommit)
  }

  /** Returns the end of the used pages of the file. */
  usedBytes(): number {
    // Every database has its environment, but lmdb's types omit it.
    const { env } = this.#handles.root as unknown as { readonly env: { info(): { lastPageNumber: number } } }
    return (env.info().lastPageNumber + 1) * PAGE_BYTES
  }

  /**
   * Handles the extra promise that lmdb-js creates for each batch and gives to no caller; its rejection would end the
   * process. Call it in the microtask after the batch was closed, when that promise is the current one.
   */
  ignoreBatchRejection(): void {
    const { committed } = this.#handles.root
    committed.then(
      () => undefined,
      () => undefined,
    )
  }

  async copy(folder: string): Promise<void> {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    await this.#handles.root.backup(folder, false)
    const file = join(folder, 'data.mdb')
    chmodSync(file, 0o600)
    syncFolder(file)
    syncFolder(folder)
  }

  all(): readonly Table[] {
    const { root: _, snapshots, ...tables } = this.#handles
    return [...Object.values(tables), ...snapshots.values()]
  }

  named(name: string): Table {
    const found = this.all().find((table) => table.name === name)
    if (found === undefined) throw new Error(`there is no table ${name}`)
    return found
  }

  #openHandles(root: RootDatabase): Handles {
    const open = (name: string) => this.#openTable(root, name)
    const names = [...root.getKeys()].map(String).filter((name) => name.startsWith(SNAPSHOT_PREFIX))
    return {
      root,
      meta: open(TABLE.meta),
      runs: open(TABLE.runs),
      byStatus: open(TABLE.byStatus),
      byTicket: open(TABLE.byTicket),
      keyValues: open(TABLE.keyValues),
      smallLogs: open(TABLE.smallLogs),
      eventChunks: open(TABLE.eventChunks),
      eventFiles: open(TABLE.eventFiles),
      fileSums: open(TABLE.fileSums),
      snapshots: new Map(names.map((name) => [name.slice(SNAPSHOT_PREFIX.length), open(name)])),
    }
  }

  #openTable(root: RootDatabase, name: string): Table {
    const rows = root.openDB<Uint8Array, string>({ name, encoding: 'binary' })
    return new Table(rows, {
      name,
      damage: this.damage,
      mayBeUnsealed: () => this.mayBeUnsealed,
      onUnreadable: (table, why) => this.#onUnreadable(table, why),
      ...(name === TABLE.meta ? { plainRows: PLAIN_ROWS } : {}),
    })
  }

  /** Sets the function to call when LMDB finds a page that it cannot read. */
  onDamaged(run: (reason: string) => void): void {
    this.#onDamaged = run
  }

  #onUnreadable(table: string, why: string): Error {
    const error = new DatabaseDamaged(this.folder, [`the table ${table} cannot be read (${why})`])
    this.#onDamaged(error.message)
    return error
  }

  /** Gives the environment up without closing it, because even that would read the file. */
  abandon(): void {
    this.#opened = undefined
  }

  async close(): Promise<void> {
    if (this.#opened === undefined) return
    // The last puts are written while the environment closes, and need the tables for that.
    await this.#opened.root.close()
    this.#opened = undefined
  }
}

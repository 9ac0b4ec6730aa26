/**
 * `installation.json` in the data directory records which installation the directory is.
 *
 * The database holds the same id. An emptied, missing, truncated or foreign database is refused, so that it is never
 * mistaken for a new installation. The database is written first: after a crash in between, the file is written from
 * the database.
 */
import { closeSync, fstatSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import {
  type DatabasePlaces,
  emptiedMessage,
  type FoundDatabase,
  foreignMessage,
  howToRestore,
  isInstallationId,
  judgeDatabase,
  newInstallationId,
  outdatedMessage,
  type RecordedInstallation,
  SET_ASIDE,
  truncatedMessage,
} from '../core/installation.ts'
import type { RandomSource } from '../core/ports/clock.ts'
import { codeOf } from '../protocol/message-of.ts'
import { DatabaseLost } from './errors.ts'
import { replaceFile } from './files/atomic.ts'
import { inspectDataFile } from './lmdb/data-file.ts'
import { UNFINISHED_COPY } from './lmdb/tables.ts'

const FILE = 'installation.json'

export interface InstallationOptions {
  readonly dataDir: string
  readonly random: RandomSource
  /** Paths below the data directory. A file, or a folder with content, shows that a database existed here. */
  readonly traces: readonly string[]
  /** Accepts an emptied database as a new one of the same installation. Absent: an emptied database is refused. */
  readonly acceptEmptied?: (howToRestore: string) => void
}

export class Installation {
  readonly #options: InstallationOptions
  readonly #recorded: RecordedInstallation

  constructor(options: InstallationOptions) {
    this.#options = options
    this.#recorded = readRecorded(options)
  }

  /** Returns the id for the database. Throws DatabaseLost when it is not the database of this directory. */
  identify(found: FoundDatabase): string {
    const { dataDir, acceptEmptied } = this.#options
    const verdict = judgeDatabase(this.#recorded, found)
    switch (verdict.is) {
      case 'own':
        return verdict.id
      case 'new':
        return this.#recordedOrNewId()
      case 'emptied':
        if (acceptEmptied === undefined) throw new DatabaseLost(emptiedMessage(placesIn(dataDir)))
        acceptEmptied(howToRestore(placesIn(dataDir)))
        return this.#recordedOrNewId()
      case 'truncated':
        throw new DatabaseLost(truncatedMessage(placesIn(dataDir), verdict, acceptEmptied !== undefined))
      case 'foreign':
        throw new DatabaseLost(foreignMessage(placesIn(dataDir), verdict.id, verdict.recordedId))
      case 'outdated':
        throw new DatabaseLost(outdatedMessage(placesIn(dataDir), this.#recorded))
    }
  }

  /** Records the id durably, unless it is recorded already. */
  async record(id: string): Promise<void> {
    if (this.#recorded.is === 'known' && this.#recorded.id === id) return
    await replaceFile(join(this.#options.dataDir, FILE), `${JSON.stringify({ id })}\n`)
  }

  #recordedOrNewId(): string {
    return this.#recorded.is === 'known'
      ? this.#recorded.id
      : newInstallationId(this.#options.random.bytes(8))
  }
}

// ---- reading -----------------------------------------------------------------------------------------------------

function readRecorded({ dataDir, traces }: InstallationOptions): RecordedInstallation {
  const text = readText(join(dataDir, FILE))
  if (text === undefined)
    return { is: 'none', hasHistory: traces.some((name) => isTrace(join(dataDir, name))) }
  const id = parseId(text)
  return isInstallationId(id) ? { is: 'known', id } : { is: 'damaged' }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function parseId(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? Reflect.get(value, 'id') : undefined
  } catch {
    return undefined
  }
}

function isTrace(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats?.isDirectory() === true ? readdirSync(path).length > 0 : stats !== undefined
}

// ---- backups -------------------------------------------------------------------------------------------------------

function placesIn(dataDir: string): DatabasePlaces {
  const backup = findBackup(dataDir)
  return {
    dataDir,
    state: join(dataDir, 'state'),
    record: join(dataDir, FILE),
    ...(backup === undefined ? {} : { backup }),
  }
}

const isNoBackup = (name: string): boolean =>
  name === 'state' || name === 'worker' || name.endsWith(UNFINISHED_COPY) || name.endsWith(SET_ASIDE)

/** Returns the newest folder in the data directory that holds another whole database file. */
function findBackup(dataDir: string): string | undefined {
  const folders = readdirSync(dataDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !isNoBackup(entry.name))
    .flatMap(({ name }) => [join(dataDir, name), join(dataDir, name, 'state')])
  return folders
    .map((folder) => ({ folder, writtenAt: writtenAtOf(join(folder, 'data.mdb')) }))
    .filter(({ writtenAt }) => writtenAt > 0)
    .sort((a, b) => b.writtenAt - a.writtenAt)[0]?.folder
}

/** Returns when a database file was last written; 0 when it cannot be restored. */
function writtenAtOf(path: string): number {
  try {
    const fd = openSync(path, 'r')
    try {
      return inspectDataFile(fd).is === 'whole' ? fstatSync(fd).mtimeMs : 0
    } finally {
      closeSync(fd)
    }
  } catch {
    return 0
  }
}

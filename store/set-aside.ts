/**
 * Puts a new database with all intact rows into the place of a damaged one, which moves to a folder beside it.
 *
 * Only the owner of the directory does this. A crash at any moment leaves the damaged database, or both. Logs whose end
 * may be lost get a line that says so. `lost.json` in the folder of the damaged database names what was lost, and the
 * host names the folder for as long as it is there.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Damage } from '../core/damage.ts'
import { isInstallationId, SET_ASIDE } from '../core/installation.ts'
import type { Clock } from '../core/ports/clock.ts'
import { checkCopy, damagedPage } from './check-data-dir.ts'
import { lossLine } from './event-order.ts'
import { replaceFile, syncFolder } from './files/atomic.ts'
import { findLastEvent } from './files/event-file.ts'
import { eventsFile } from './files/run-folder.ts'
import { damageOfRow } from './lmdb/damage-list.ts'
import { recordText } from './lmdb/event-buffer.ts'
import { chunkKey, runOfChunk, toChunk } from './lmdb/event-chunks.ts'
import { toSum } from './lmdb/file-sums.ts'
import type { PageFault } from './lmdb/page-walk.ts'
import { UNFINISHED_CODES } from './lmdb/run-index.ts'
import { type Salvage, SalvagedDatabase } from './lmdb/salvage.ts'
import { describeFault } from './lmdb/start-check.ts'
import { TABLE } from './lmdb/table-names.ts'
import { UNFINISHED_COPY } from './lmdb/tables.ts'
import { LOST_FILE } from './set-aside-folders.ts'

export interface SetAside {
  /** The folder of the damaged database. */
  readonly folder: string
  readonly keptRows: number
  readonly lost: readonly Damage[]
}

/** Complete, should a crash leave it: a start names it as what the database can be restored from. */
const MENDED = 'state.mended'

/** Call it while this process owns the directory. Returns undefined when pages and rows of the database are whole. */
export async function setAsideDamage(
  dataDir: string,
  clock: Pick<Clock, 'now'>,
): Promise<SetAside | undefined> {
  const [state, mended] = [join(dataDir, 'state'), join(dataDir, MENDED)]
  const draft = mended + UNFINISHED_COPY
  for (const leftOver of [draft, mended]) await rm(leftOver, { recursive: true, force: true })
  await mkdir(draft, { mode: 0o700 })
  const salvage = await writeMended(dataDir, draft, clock)
  if (salvage.faults.length === 0 && salvage.damagedRows.length === 0) {
    await rm(draft, { recursive: true, force: true })
    return undefined
  }
  const at = new Date(clock.now()).toISOString()
  const folder = `${state}.${at.replace(/[:.]/g, '-')}${SET_ASIDE}`
  const lost = lostBy(salvage, draft)
  await replaceFile(join(state, LOST_FILE), `${JSON.stringify({ at, lost }, undefined, 2)}\n`)
  await rename(draft, mended)
  await rename(state, folder)
  await rename(mended, state)
  await syncFolder(dataDir)
  await rm(join(folder, 'ballast'), { force: true })
  return { folder, keptRows: salvage.kept, lost }
}

/** Rows below a damaged page may have been found, so the new database says which records are missing. */
function lostBy({ faults, damagedRows }: Salvage, mended: string): Damage[] {
  const found = [
    ...faults.map((fault) => damagedPage(describeFault(fault))),
    ...damagedRows.map(({ table, key }) => damageOfRow(table, key)),
    ...checkCopy(mended).damage,
  ]
  return [...new Map(found.map((each) => [each.id, each])).values()]
}

async function writeMended(dataDir: string, draft: string, clock: Pick<Clock, 'now'>): Promise<Salvage> {
  const database = new SalvagedDatabase(draft)
  try {
    const salvage = database.copyFrom(join(dataDir, 'state'), recordedInstallation(dataDir))
    await restoreRecords(database, join(dataDir, 'runs'))
    markLostEnds(database, salvage.faults, clock)
    return salvage
  } finally {
    await database.close()
  }
}

function recordedInstallation(dataDir: string): string | undefined {
  try {
    const id: unknown = Reflect.get(
      Object(JSON.parse(readFileSync(join(dataDir, 'installation.json'), 'utf8'))),
      'id',
    )
    return isInstallationId(id) ? id : undefined
  } catch {
    return undefined
  }
}

// ---- logs ----------------------------------------------------------------------------------------------------------

/** A log with a file and without its record would read as empty. */
async function restoreRecords(database: SalvagedDatabase, runs: string): Promise<void> {
  const folders = existsSync(runs) ? readdirSync(runs) : []
  for (const runId of folders) {
    const path = eventsFile(runs, runId)
    if (database.has(TABLE.eventFiles, runId) || !existsSync(path)) continue
    const { end, next } = lastSummed(database, runId) ?? (await findLastEvent(path))
    if (end > 0) database.putContent(TABLE.eventFiles, runId, Buffer.from(recordText({ bytes: end, next })))
  }
  database.flush()
}

function lastSummed(database: SalvagedDatabase, runId: string) {
  const key = database.keys(TABLE.fileSums, rangeOf(runId)).at(-1)
  const stored = key === undefined ? undefined : database.content(TABLE.fileSums, key)
  const sum = key === undefined || stored === undefined ? undefined : toSum({ key, value: stored, stored })
  return sum && { end: sum.offset + sum.bytes, next: sum.next }
}

const rangeOf = (runId: string) => ({ start: chunkKey(runId, 0), end: chunkKey(runId, 0xffff_ffff) })

/**
 * Adds a line behind each log whose next events would have lain on a damaged page. Events that are lost in the middle of
 * a log are seen by their numbers.
 */
function markLostEnds(
  database: SalvagedDatabase,
  faults: readonly PageFault[],
  clock: Pick<Clock, 'now'>,
): void {
  const unfinished = new Set(
    database
      .keys(TABLE.byStatus)
      .flatMap((key) => (UNFINISHED_CODES.some((code) => key.startsWith(code)) ? [key.slice(1)] : [])),
  )
  const runs = new Set(database.keys(TABLE.byStatus).map((key) => key.slice(1)))
  for (const table of [TABLE.smallLogs, TABLE.eventChunks]) {
    const damaged = faults.flatMap((fault) => (fault.table === table && fault.keys ? [fault.keys] : []))
    if (damaged.length === 0) continue
    for (const runId of runs) {
      const hasFile = database.has(TABLE.eventFiles, runId)
      // Events of finished runs have left the buffer for their files, and a log with a file is small no more.
      if (table === TABLE.smallLogs ? hasFile : !unfinished.has(runId)) continue
      // Chunks in the buffer follow the small log, so readers see by their numbers what is lost between.
      const hasMore = database.keys(TABLE.eventChunks, rangeOf(runId)).length > 0
      if (table === TABLE.smallLogs && hasMore) continue
      const next = endOf(database, runId)
      const key = chunkKey(runId, next)
      if (!damaged.some(({ low = '', high }) => key >= low && (high === undefined || key < high))) continue
      const why = 'lost with those that may have come after, because the database was damaged'
      const line = lossLine({ runId, from: next, to: next }, clock.now(), why)
      database.putContent(table, key, Buffer.from(`${line}\n`))
    }
    database.flush()
  }
}

/** Returns the number of the next event, as far as the new database knows. */
function endOf(database: SalvagedDatabase, runId: string): number {
  const record = database.content(TABLE.eventFiles, runId)
  let next = record === undefined ? 0 : Number(Buffer.from(record).toString('latin1').split(' ')[1])
  for (const table of [TABLE.smallLogs, TABLE.eventChunks])
    for (const key of database.keys(table, rangeOf(runId)).slice(-1)) {
      const stored = database.content(table, key) ?? new Uint8Array()
      const { first, count } = toChunk({ key, value: stored, stored })
      if (runOfChunk(key) === runId) next = Math.max(next, first + count)
    }
  return next
}

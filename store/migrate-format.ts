/**
 * Migrates a data directory of an earlier format.
 *
 * Runs before any other read or write of runs and events. Event files from before the database recorded their valid
 * length are valid up to their last whole event, and the database records that. Runs with a worker move to one part of the
 * index by status, and the actors of runs to the rows of their runs. Then each row gets its checksum; until the last one
 * has it, rows without are read. An interrupted migration starts again, or goes on.
 */
import { join } from 'node:path'
import type { Log } from '../core/ports/log.ts'
import { messageOf } from '../protocol/message-of.ts'
import { isRunId } from './event-order.ts'
import { isOwnFolder, namesIn } from './files/atomic.ts'
import { findLastEvent } from './files/event-file.ts'
import { eventsFile } from './files/run-folder.ts'
import type { LmdbControlDatabase } from './lmdb/control-database.ts'
import type { LogPut } from './lmdb/encode-writes.ts'
import { ALL_SEALED, FORMAT, FORMAT_KEY, FORMAT_WITH_EVENT_FILES, SEALED } from './lmdb/origin.ts'

/** Records per transaction, whose space is preallocated. */
const RECORDS_PER_COMMIT = 500

/** @param runs the folder of the event files; a worker has none */
export async function migrateFormat(
  runs: string | undefined,
  database: LmdbControlDatabase,
  log: Log,
): Promise<void> {
  if (database.format < FORMAT) {
    if (runs !== undefined && database.format < FORMAT_WITH_EVENT_FILES)
      await recordFiles(runs, database, log)
    // In one commit, so that no program of the earlier format ever sees the new layout. Unfinished runs are few.
    await database.commitPuts([
      ...database.runs.statusIndexMigration(),
      ...database.snapshots.actorMigration(),
      { to: 'meta', key: FORMAT_KEY, text: String(FORMAT) },
    ])
  }
  if (!database.mayBeUnsealed) return
  log.info({ format: FORMAT }, 'the rows of the database get checksums; later starts need not do this again')
  for (const puts of database.unsealedRows(RECORDS_PER_COMMIT)) await database.commitPuts(puts)
  await database.commitPuts([{ to: 'meta', key: SEALED, text: ALL_SEALED }])
  database.onSealed()
}

async function recordFiles(runs: string, database: LmdbControlDatabase, log: Log): Promise<void> {
  let puts: LogPut[] = []
  for (const name of await namesIn(runs)) {
    puts.push(...(await recordOf(runs, name, log)))
    if (puts.length < RECORDS_PER_COMMIT) continue
    await database.commitPuts(puts)
    puts = []
  }
  await database.commitPuts(puts)
}

/** Returns nothing for a folder that is not a run's, or has no events. */
async function recordOf(runs: string, name: string, log: Log): Promise<LogPut[]> {
  if (!isRunId(name) || !(await isOwnFolder(join(runs, name)))) return []
  try {
    const { end, next } = await findLastEvent(eventsFile(runs, name))
    return end === 0 ? [] : [{ to: 'event-file', key: name, record: { bytes: end, next }, moved: 0 }]
  } catch (error) {
    log.warn(
      { runId: name, reason: messageOf(error) },
      'the events of a run could not be read and are left out',
    )
    return []
  }
}

/**
 * Migrates a data directory of an earlier format.
 *
 * Runs before any other read or write of runs and events. Event files from before the database recorded their valid
 * length are valid up to their last whole event, and the database records that. Runs with a worker move to one part of the
 * index by status, and the actors of runs to the rows of their runs. Small logs need no migration: a run that has a file
 * keeps to it. The new format is written last, so an interrupted migration starts again.
 */
import { join } from 'node:path'
import type { Log } from '../core/ports.ts'
import { messageOf } from './errors.ts'
import { isRunId } from './event-order.ts'
import { isOwnFolder, namesIn } from './files/atomic.ts'
import { findLastEvent } from './files/event-file.ts'
import { eventsFile } from './files/run-folder.ts'
import type { LmdbControlDatabase } from './lmdb/control-database.ts'
import type { LogPut } from './lmdb/encode-writes.ts'
import { FORMAT, FORMAT_WITH_EVENT_FILES } from './lmdb/origin.ts'

/** Records per transaction, whose space is preallocated. */
const RECORDS_PER_COMMIT = 500

export async function migrateFormat(runs: string, database: LmdbControlDatabase, log: Log): Promise<void> {
  if (database.format >= FORMAT) return
  if (database.format < FORMAT_WITH_EVENT_FILES) await recordFiles(runs, database, log)
  // In one commit, so that no program of the earlier format ever sees the new layout. Unfinished runs are few.
  await database.commitPuts([
    ...database.runs.statusIndexMigration(),
    ...database.snapshots.actorMigration(),
    { to: 'meta', key: 'format', text: String(FORMAT) },
  ])
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

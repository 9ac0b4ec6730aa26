/**
 * Migrates the event logs of earlier formats.
 *
 * Runs once per data directory, before any read or write of events. Event files from before the database recorded their
 * valid length are valid up to their last whole event, and the database records that. Small logs need no migration: a
 * run that has a file keeps to it. The new format is written last, so an interrupted migration starts again.
 */
import { join } from 'node:path'
import type { Log } from '../../core/ports.ts'
import { messageOf } from '../errors.ts'
import { isRunId } from '../event-order.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { LogPut } from '../lmdb/encode-writes.ts'
import { FORMAT, FORMAT_WITH_EVENT_FILES } from '../lmdb/origin.ts'
import { isOwnFolder, namesIn } from './atomic.ts'
import { findLastEvent } from './event-file.ts'
import { eventsFile } from './run-folder.ts'

/** Records per transaction, whose space is preallocated. */
const RECORDS_PER_COMMIT = 500

export async function migrateEventFiles(
  runs: string,
  database: LmdbControlDatabase,
  log: Log,
): Promise<void> {
  if (database.format >= FORMAT) return
  if (database.format < FORMAT_WITH_EVENT_FILES) await recordFiles(runs, database, log)
  await database.commitPuts([{ to: 'meta', key: 'format', text: String(FORMAT) }])
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

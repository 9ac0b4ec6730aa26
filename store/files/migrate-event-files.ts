/**
 * Event files from before the ledger knew how much of them counts.
 *
 * Done once for a data directory, before anything reads or writes events: each file counts up to its last whole
 * event, and the ledger says so. The layout from which on it always does is written down last, so that a start that
 * does not get that far begins again.
 */
import { join } from 'node:path'
import type { Log } from '../../core/ports.ts'
import { messageOf } from '../errors.ts'
import { isRunId } from '../event-order.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { LogPut } from '../lmdb/encode-writes.ts'
import { FORMAT, FORMAT_WITH_EVENT_FILES } from '../lmdb/tables.ts'
import { isOwnFolder, namesIn } from './atomic.ts'
import { findLastEvent } from './event-file.ts'
import { eventsFile } from './run-folder.ts'

/** Records in one transaction, whose room is taken beforehand. */
const RECORDS_PER_COMMIT = 500

export async function migrateEventFiles(
  runs: string,
  database: LmdbControlDatabase,
  log: Log,
): Promise<void> {
  if (database.format >= FORMAT_WITH_EVENT_FILES) return
  let puts: LogPut[] = []
  for (const name of await namesIn(runs)) {
    puts.push(...(await recordOf(runs, name, log)))
    if (puts.length < RECORDS_PER_COMMIT) continue
    await database.commitPuts(puts)
    puts = []
  }
  await database.commitPuts([...puts, { to: 'meta', key: 'format', text: String(FORMAT) }])
}

/** Nothing for what is no run's folder, or has no events. */
async function recordOf(runs: string, name: string, log: Log): Promise<LogPut[]> {
  if (!isRunId(name) || !(await isOwnFolder(join(runs, name)))) return []
  try {
    const { end, next } = await findLastEvent(eventsFile(runs, name))
    return end === 0 ? [] : [{ to: 'log', key: name, record: { bytes: end, next }, moved: 0 }]
  } catch (error) {
    log.warn(
      { runId: name, reason: messageOf(error) },
      'the events of a run could not be read, and are left out',
    )
    return []
  }
}

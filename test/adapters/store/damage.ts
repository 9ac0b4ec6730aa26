/** Opens data directories, and damages rows of their databases. */
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Store } from '../../../core/ports/store.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { inspectDataFile } from '../../../store/lmdb/data-file.ts'
import { openStore } from '../../../store/store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import {
  logEvents,
  putEvents,
  putKeyValue,
  putRun,
  putSnapshot,
  runId,
  sampleRun,
  sampleSnapshot,
} from './samples.ts'

export const openAt = (dataDir: string, log: Log = createRecordingLog()): Promise<Store> =>
  openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log,
    meters: noMeters,
    emergencySpaceBytes: 0,
  })

/** Changes one stored row, without its checksum. */
export async function changeRow(
  dataDir: string,
  table: string,
  key: string,
  change: (row: Buffer) => Buffer | null,
): Promise<void> {
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const rows = raw.openDB<Uint8Array, string>({ name: table, encoding: 'binary' })
  const changed = change(Buffer.from(rows.get(key) ?? []))
  if (changed === null) await rows.remove(key)
  else await rows.put(key, changed)
  await raw.close()
}

export const flipBit = (row: Buffer): Buffer => {
  const at = Math.floor(row.length / 2)
  row[at] = (row[at] ?? 0) ^ 4
  return row
}

export const PAGE_BYTES = 4096
const META_PAGES = 2

/** Returns the pages that the database has, free ones included, but for the two first. */
export function pagesOf(dataDir: string): readonly number[] {
  const fd = openSync(join(dataDir, 'state', 'data.mdb'), 'r')
  try {
    const file = inspectDataFile(fd)
    if (file.is !== 'whole') throw new Error('the database is not whole')
    return Array.from({ length: file.meta.lastPage + 1 - META_PAGES }, (_, n) => n + META_PAGES)
  } finally {
    closeSync(fd)
  }
}

/** Overwrites a page, as a bad block would. */
export function garblePage(dataDir: string, page: number): void {
  const fd = openSync(join(dataDir, 'state', 'data.mdb'), 'r+')
  writeSync(fd, Buffer.alloc(PAGE_BYTES, 0xa5), 0, PAGE_BYTES, page * PAGE_BYTES)
  closeSync(fd)
}

export const WHOLE_RUNS = 40
export const smallLog = logEvents(runId(1), 0, 8)
export const longLog = logEvents(runId(2), 0, 60).map(
  (event) => ({ ...event, text: 'x'.repeat(1_000) }) as RunEvent,
)

/** A directory with runs, a log in a file of several parts, and a small log of four chunks. */
export async function createWholeDirectory(): Promise<string> {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  // Pages with older rows of the same runs stay in the file.
  for (const status of ['queued', 'running', 'completed'] as const)
    for (let n = 0; n < WHOLE_RUNS; n += 10)
      await store.database.commit(Array.from({ length: 10 }, (_, i) => putRun(sampleRun(n + i + 1, status))))
  await store.database.commit([
    putSnapshot('lease', 'ls-1', sampleSnapshot(1)),
    putKeyValue('mark', 'ls-1', { upTo: 4 }),
    putKeyValue('ticket', 't-1', { state: 'Todo' }),
  ])
  for (let n = 0; n < smallLog.length; n += 2)
    await store.database.commit([putEvents(runId(1), smallLog.slice(n, n + 2))])
  for (let n = 0; n < longLog.length; n += 4)
    await store.database.commit([putEvents(runId(2), longLog.slice(n, n + 4))])
  await store.usage.replace({ projectKey: 'p', sessionId: 's' }, '{"entries":[]}')
  const { database } = store
  if (!(database instanceof LmdbControlDatabase)) throw new Error('the store has another database')
  await until('the log is in its file', () => database.eventBuffer.record(runId(2)).next === longLog.length)
  await store.close()
  return dataDir
}

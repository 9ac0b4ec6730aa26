/** Opens data directories, and damages rows of their databases. */
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/clock.ts'
import type { Store } from '../../../core/ports.ts'
import { inspectDataFile } from '../../../store/lmdb/data-file.ts'
import { openStore } from '../../../store/store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

export const openAt = (dataDir: string): Promise<Store> =>
  openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
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

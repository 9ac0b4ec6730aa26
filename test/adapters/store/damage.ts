/** Opens data directories, and damages rows of their databases. */
import { join } from 'node:path'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/clock.ts'
import type { Store } from '../../../core/ports.ts'
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

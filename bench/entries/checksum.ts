/**
 * Measures what the checksum of a row costs: rows of about the size of a run, written and read through the store's own
 * table beside the same rows in a table of raw LMDB, in one process.
 *
 * Both write in transactions that are not synced, so that the disk's part does not hide the processor's.
 */
import { open } from 'lmdb'
import { DamageList } from '../../store/lmdb/damage-list.ts'
import { Table } from '../../store/lmdb/table.ts'
import { type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Measurement } from '../figures.ts'

const ROWS = 20_000
const ROWS_QUICK = 5_000
const ROW_BYTES = 1_200

interface Rows {
  put(key: string, row: Uint8Array): unknown
  get(key: string): Uint8Array | undefined
}

export const checksum: Entry = {
  name: 'checksum',
  about: 'rows a second with checksums, written and read / the same rows in raw LMDB',
  async measure({ rounds, quick }, resources) {
    const root = open({ path: resources.createFolder('checksum'), noSubdir: false, noSync: true })
    const openTable = (name: string) => root.openDB<Uint8Array, string>({ name, encoding: 'binary' })
    const ours = new Table(openTable('ours'), {
      name: 'ours',
      damage: new DamageList(),
      mayBeUnsealed: () => false,
      onUnreadable: (_table, why) => new Error(why),
    })
    const raw = openTable('raw')
    const count = quick ? ROWS_QUICK : ROWS
    const measured = await measureWhenSteady(rounds, {
      ours: () => measureRows(ours, count),
      raw: () => measureRows(raw, count),
    })
    await root.close()
    return [compareMeasurements({ name: 'rows with checksums', unit: 'a second' }, measured)]
  },
}

async function measureRows(rows: Rows, count: number): Promise<Measurement> {
  const row = Buffer.alloc(ROW_BYTES, 'a row of a run, with its ticket and its actor. ')
  const before = process.cpuUsage()
  const began = performance.now()
  let written: unknown
  for (let n = 0; n < count; n++) written = rows.put(keyOf(n), row)
  await written
  for (let n = 0; n < count; n++) rows.get(keyOf(n))
  const seconds = (performance.now() - began) / 1_000
  const { user, system } = process.cpuUsage(before)
  return { value: count / seconds, cpuMicros: (user + system) / count }
}

const keyOf = (n: number): string => `run-${String(n).padStart(32, '0')}`

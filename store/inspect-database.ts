/**
 * Tells whether a start would accept the database of a data directory, without changing anything there.
 *
 * Call it while no process uses the directory.
 */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { FoundDatabase } from '../core/installation.ts'
import type { RandomSource } from '../core/ports/clock.ts'
import { DatabaseDamaged, StoreTooNew, StoreUnreadable } from './errors.ts'
import { Installation } from './installation.ts'
import { inspectDataFile } from './lmdb/data-file.ts'
import { DatabaseCheck } from './lmdb/database-check.ts'
import { checkFiles, findUnopened } from './lmdb/open-environment.ts'
import { FORMAT, INSTALLATION } from './lmdb/origin.ts'
import { describeFault } from './lmdb/start-check.ts'
import { TABLE } from './lmdb/table-names.ts'
import { HOST_TRACES } from './store.ts'
import { WORKER_TRACES } from './worker-store.ts'

/**
 * Returns how to restore a worker's database that is missing or empty, because a worker starts without it. Rejects with
 * DatabaseLost, StoreTooNew or StoreUnreadable, like the start would.
 */
export async function inspectDatabase(
  dataDir: string,
  owner: 'host' | 'worker',
  random: RandomSource,
): Promise<string | undefined> {
  let restoring: string | undefined
  const acceptEmptied = (howToRestore: string) => {
    restoring = howToRestore
  }
  const installation = new Installation(
    owner === 'host'
      ? { dataDir, random, traces: HOST_TRACES }
      : { dataDir, random, traces: WORKER_TRACES, acceptEmptied },
  )
  installation.identify(readOrigin(join(dataDir, 'state')))
  return restoring
}

/**
 * Reads to which installation a database belongs, without LMDB, which ends the process on a damaged page.
 *
 * Throws DatabaseDamaged, StoreTooNew or StoreUnreadable.
 */
function readOrigin(folder: string): FoundDatabase {
  const unopened = findUnopened(folder)
  if (unopened !== undefined) return unopened
  checkFiles(folder)
  const fd = openSync(join(folder, 'data.mdb'), 'r')
  try {
    const file = inspectDataFile(fd)
    if (file.is !== 'whole')
      throw new StoreUnreadable(`the database in ${folder} was changed while it was read; try again`)
    let id: string | undefined
    const check = new DatabaseCheck(fd, file.meta, {
      table: TABLE.meta,
      onRow: ({ key, content }) => {
        if (key === INSTALLATION) id = Buffer.from(content).toString('utf8')
      },
    })
    check.run()
    const faults = check.faults()
    if (faults.length > 0) throw new DatabaseDamaged(folder, faults.map(describeFault))
    const { format } = check
    if (format === undefined) return { is: 'empty' }
    if (format > FORMAT) throw new StoreTooNew(folder, format, FORMAT)
    return id === undefined ? { is: 'unnamed' } : { is: 'named', id }
  } finally {
    closeSync(fd)
  }
}

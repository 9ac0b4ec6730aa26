/** Reads to which installation a database belongs, without LMDB, which ends the process on a damaged page. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { FoundDatabase } from '../../core/installation.ts'
import { DatabaseDamaged, StoreTooNew, StoreUnreadable } from '../errors.ts'
import { inspectDataFile } from './data-file.ts'
import { DatabaseCheck } from './database-check.ts'
import { checkFiles, findUnopened } from './open-environment.ts'
import { FORMAT, INSTALLATION } from './origin.ts'
import { describeFault } from './start-check.ts'
import { TABLE } from './table-names.ts'

/** Throws DatabaseDamaged, StoreTooNew or StoreUnreadable. */
export function readOrigin(folder: string): FoundDatabase {
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

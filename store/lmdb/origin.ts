/**
 * The origin of a database, in its table `meta`: the format of its tables, and the installation to which it belongs.
 */
import type { Database, RootDatabase } from 'lmdb'
import type { FoundDatabase } from '../../core/installation.ts'
import { StoreTooNew, StoreUnreadable } from '../errors.ts'
import { RowSeal } from './file-sums.ts'
import { TABLE } from './table-names.ts'

/** The format of the tables. A program refuses a higher number than its own. */
export const FORMAT = 5
/** From this format on, event files have records in the database, and bytes beyond a record are no events. */
export const FORMAT_WITH_EVENT_FILES = 2
// From format 3 on, small logs have a table of their own. An older program would take such a run for one without events.
// From format 4 on, the actor of a run lies in its row. An older program would not find it.
// From format 5 on, rows have checksums. An older program would take them for damaged.
export const INSTALLATION = 'installation'
export const FORMAT_KEY = 'format'
/** The row that says that no row without a checksum is left. */
export const SEALED = 'sealed'
export const ALL_SEALED = 'all'
/** Rows that programs of every format read, so they have no checksum. */
export const PLAIN_ROWS: ReadonlySet<string> = new Set([FORMAT_KEY, INSTALLATION])

/** The rows of the origin alone. */
function openMeta(root: RootDatabase): Database<string, string> {
  return root.openDB<string, string>({ name: TABLE.meta, encoding: 'string' })
}

/** Returns the stored format; undefined when there is none yet. Only reads. */
export function checkFormat(folder: string, root: RootDatabase): number | undefined {
  const isMade = [...root.getKeys()].map(String).includes(TABLE.meta)
  const text = isMade ? openMeta(root).get(FORMAT_KEY) : undefined
  if (text === undefined) return undefined
  const found = Number(text)
  if (!Number.isInteger(found) || found < 1) {
    throw new StoreUnreadable(`the database in ${folder} names no format; it was not made by switchyard`)
  }
  if (found > FORMAT) throw new StoreTooNew(folder, found, FORMAT)
  return found
}

/** Only reads. `format`: undefined for a database that was just created. */
export function findInstallation(root: RootDatabase, format: number | undefined): FoundDatabase {
  if (format === undefined) return { is: 'empty' }
  const id = openMeta(root).get(INSTALLATION)
  return id === undefined ? { is: 'unnamed' } : { is: 'named', id }
}

/** Writes what is missing in one transaction, so that no crash leaves a format without an installation. */
export function writeOrigin(
  root: RootDatabase,
  { format, installation }: { readonly format: number; readonly installation: string },
): void {
  const meta = openMeta(root)
  if (meta.get(INSTALLATION) === installation) return
  const isNew = meta.get(FORMAT_KEY) === undefined
  root.transactionSync(() => {
    if (isNew) {
      const rows = root.openDB<Uint8Array, string>({ name: TABLE.meta, encoding: 'binary' })
      rows.putSync(SEALED, new RowSeal(TABLE.meta).seal(SEALED, Buffer.from(ALL_SEALED)))
      meta.putSync(FORMAT_KEY, String(format))
    }
    meta.putSync(INSTALLATION, installation)
  })
}

/**
 * Checks a database before LMDB opens it, unless its last use ended in order and nothing has written to it since.
 *
 * LMDB ends the process on a damaged page. The check takes so long that a person notices it only after several uses in a
 * row that did not end in order: each lets it take four times as long, so that what ends the process again and again is
 * found in a database of any size. `last-use.json` beside the database remembers how its last use ended.
 */
import { closeSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'
import { DatabaseDamaged } from '../errors.ts'
import { inspectDataFile, type Meta } from './data-file.ts'
import { type DamagedRow, DatabaseCheck } from './database-check.ts'
import { FREE, MAIN, type PageFault } from './page-walk.ts'

const FILE = 'last-use.json'
const FIRST_CHECK_MS = 1_000
const GROWTH = 4
/** With the tenth use in a row that did not end in order the check takes as long as it needs. */
const GROWTHS_MAX = 10

/** The marks of a database to which no program has written since its last use. */
interface CleanEnd {
  readonly bytes: number
  readonly modifiedMs: number
  readonly transaction: number
}

interface LastUse {
  /** How many uses in a row did not end in order, the present one included. */
  readonly unclean?: number
  readonly end?: CleanEnd
}

export interface FoundAtStart {
  /** As far as the check came. */
  readonly damaged: readonly DamagedRow[]
  /** The last use began, and did not end in order. */
  readonly wasInterrupted: boolean
}

/** Throws DatabaseDamaged for damaged pages. */
export function checkBeforeUse(folder: string, clock: Pick<Clock, 'monotonic'>): FoundAtStart {
  const last = readLastUse(folder)
  const found = inspect(folder)
  const isUnchanged = last.end !== undefined && isSame(last.end, found)
  const unclean = isUnchanged ? 0 : Math.min((last.unclean ?? 0) + 1, GROWTHS_MAX)
  writeLastUse(folder, { unclean })
  const wasInterrupted = found !== undefined && last.unclean !== undefined
  if (found === undefined || isUnchanged) return { damaged: [], wasInterrupted }
  const msMax = unclean === GROWTHS_MAX ? Number.POSITIVE_INFINITY : FIRST_CHECK_MS * GROWTH ** (unclean - 1)
  return { damaged: checkPages(folder, found.meta, clock, msMax), wasInterrupted }
}

/** The use has ended in order: the database is closed. */
export function recordCleanEnd(folder: string): void {
  try {
    const found = inspect(folder)
    if (found !== undefined) writeLastUse(folder, { end: endOf(found) })
  } catch {
    // The next start checks.
  }
}

function checkPages(
  folder: string,
  meta: Meta,
  clock: Pick<Clock, 'monotonic'>,
  msMax: number,
): readonly DamagedRow[] {
  const until = clock.monotonic() + msMax
  const fd = openSync(join(folder, 'data.mdb'), 'r')
  try {
    const check = new DatabaseCheck(fd, meta, { mayGoOn: () => clock.monotonic() < until })
    check.run()
    const faults = check.faults()
    if (faults.length > 0) throw new DatabaseDamaged(folder, faults.map(describeFault))
    return check.damagedRows()
  } finally {
    closeSync(fd)
  }
}

export function describeFault({ page, table, message }: PageFault): string {
  const where =
    table === FREE ? 'the list of free pages' : table === MAIN ? 'the list of tables' : `the table ${table}`
  return page === 0 ? `${where} ${message}` : `page ${page} of ${where} ${message}`
}

// ---- the last use --------------------------------------------------------------------------------------------------

interface InspectedDatabase {
  readonly bytes: number
  readonly modifiedMs: number
  readonly meta: Meta
}

/** Returns undefined for a file that LMDB must not open, or would create: others say why. */
function inspect(folder: string): InspectedDatabase | undefined {
  const path = join(folder, 'data.mdb')
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return undefined
  const fd = openSync(path, 'r')
  try {
    const file = inspectDataFile(fd)
    return file.is === 'whole' ? { bytes: stats.size, modifiedMs: stats.mtimeMs, meta: file.meta } : undefined
  } finally {
    closeSync(fd)
  }
}

const endOf = ({ bytes, modifiedMs, meta }: InspectedDatabase): CleanEnd => ({
  bytes,
  modifiedMs,
  transaction: meta.transaction,
})

const isSame = (end: CleanEnd, found: InspectedDatabase | undefined): boolean =>
  found !== undefined &&
  end.bytes === found.bytes &&
  end.modifiedMs === found.modifiedMs &&
  end.transaction === found.meta.transaction

/** A file that cannot be read as such says nothing, so that the database is checked. */
function readLastUse(folder: string): LastUse {
  try {
    const found: unknown = JSON.parse(readFileSync(join(folder, FILE), 'utf8'))
    return typeof found === 'object' && found !== null ? found : {}
  } catch {
    return {}
  }
}

function writeLastUse(folder: string, use: LastUse): void {
  const path = join(folder, FILE)
  try {
    writeFileSync(path, `${JSON.stringify(use)}\n`, { mode: 0o600 })
  } catch {
    // On a full disk a missing file is as good: the next start checks.
    rmSync(path, { force: true })
  }
}

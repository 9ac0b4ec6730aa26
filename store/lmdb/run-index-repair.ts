/**
 * Makes the indexes and the counts of the runs again from their records, when they disagree.
 *
 * Damaged entries go, and missing ones come. An entry of a run whose record is missing stays: it is what names the run.
 */
import { readOr } from '../../core/damage.ts'
import type { RunStatus } from '../../protocol/run.ts'
import type { Put, RowPut } from './encode-writes.ts'
import { STATUS_CODE, STATUS_CODES } from './run-codec.ts'
import {
  durableIndexFields,
  EMPTY_VALUE,
  type RunCounts,
  type RunIndexFields,
  ticketKey,
} from './run-index.ts'
import { backwards, zeroCounts } from './runs.ts'
import type { Table } from './table.ts'
import type { Tables } from './tables.ts'

/** Runs, or entries, in one transaction, whose space is preallocated. */
const ROWS_PER_COMMIT = 500

/** Returns the counts, which are on disk then. */
export async function repairRunIndexes(
  tables: Tables,
  commit: (puts: readonly Put[]) => Promise<void>,
): Promise<RunCounts> {
  for (const table of [tables.byStatus, tables.byTicket])
    await commitAll(
      damagedKeys(table).map((key) => removal(table, key)),
      commit,
    )
  const counts = zeroCounts()
  for (const id of indexedOnly(tables)) counts[statusByIndex(tables, id)]++
  const puts: RowPut[] = []
  for (const id of backwards(tables.runs, '', undefined)) {
    const fields = readOr(
      () => durableIndexFields(tables, id),
      () => null,
    )
    counts[fields?.status ?? statusByIndex(tables, id)]++
    if (fields !== null) puts.push(...entriesToMend(tables, id, fields))
    if (puts.length >= ROWS_PER_COMMIT) await commit(puts.splice(0))
  }
  await commit([...puts, { to: 'meta', key: 'counts', text: JSON.stringify(counts) }])
  return counts
}

async function commitAll(
  puts: readonly Put[],
  commit: (puts: readonly Put[]) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < puts.length; at += ROWS_PER_COMMIT) await commit(puts.slice(at, at + ROWS_PER_COMMIT))
}

const damagedKeys = (table: Table): string[] =>
  [...table.getRange()].flatMap(({ key, value }) => (value === undefined ? [key] : []))

function entriesToMend(tables: Tables, id: string, { status, tickets }: RunIndexFields): RowPut[] {
  const { byStatus, byTicket } = tables
  const own = STATUS_CODE[status]
  const wrong = STATUS_CODES.filter((code) => code !== own && byStatus.doesExist(code + id))
  const missing = [
    ...(byStatus.doesExist(own + id) ? [] : [entry(byStatus, own + id)]),
    ...tickets
      .map((ticket) => ticketKey(ticket) + id)
      .flatMap((key) => (byTicket.doesExist(key) ? [] : [entry(byTicket, key)])),
  ]
  return [...wrong.map((code) => removal(byStatus, code + id)), ...missing]
}

const entry = ({ name }: Table, key: string): RowPut => ({ to: 'row', table: name, key, bytes: EMPTY_VALUE })
const removal = ({ name }: Table, key: string): RowPut => ({ to: 'row', table: name, key, bytes: null })

/** Runs of which only the index knows. */
function indexedOnly(tables: Tables): string[] {
  const ids = [...tables.byStatus.getKeys()].map((key) => key.slice(1))
  return ids.filter((id) => !tables.runs.doesExist(id))
}

/** The status of a run whose record cannot be read, as far as it is known. */
function statusByIndex(tables: Tables, id: string): RunStatus {
  const statuses = Object.entries(STATUS_CODE) as [RunStatus, string][]
  return statuses.find(([, code]) => tables.byStatus.doesExist(code + id))?.[0] ?? 'failed'
}

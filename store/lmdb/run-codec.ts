/**
 * Encodes and decodes the stored record of one run, and migrates records of older layouts.
 */
import { DamagedRecord, isDamagedRecord } from '../../core/damage.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import { StoreUnreadable } from '../errors.ts'
import { missingRun } from './damage-list.ts'
import { damaged, recordPart } from './run-rows.ts'
import type { Tables } from './tables.ts'

/** The layout version of a stored run. Each version has one function that migrates it to the next. */
const RUN_VERSION = 1
const MIGRATIONS: Readonly<Record<number, (run: unknown) => unknown>> = {}

/** Runs with a worker share a code: they are few, and the index need not change while a run progresses. */
export const STATUS_CODE: Readonly<Record<RunStatus, string>> = {
  queued: 'q',
  preparing: 'a',
  running: 'a',
  finalizing: 'a',
  completed: 'c',
  failed: 'f',
  cancelled: 'x',
}
export const STATUS_CODES = [...new Set(Object.values(STATUS_CODE))]

export const toStoredRun = (run: Run): readonly [number, Run] => [RUN_VERSION, run]

/** Throws DamagedRecord, also for a run that an index names and that is missing. */
export function readRun(tables: Tables, id: string): Run | undefined {
  try {
    const bytes = tables.runs.get(id)
    if (bytes !== undefined) return migrateRun(id, decoded(tables, id, bytes))
    if (STATUS_CODES.some((code) => tables.byStatus.doesExist(code + id)))
      throw new DamagedRecord(missingRun(id))
    return undefined
  } catch (error) {
    if (isDamagedRecord(error)) tables.damage.note(error.damage)
    throw error
  }
}

function decoded(tables: Tables, id: string, bytes: Uint8Array): unknown {
  try {
    return tables.codec.decode(recordPart(id, bytes))
  } catch (error) {
    throw damaged(id, error)
  }
}

function migrateRun(id: string, record: unknown): Run {
  if (!Array.isArray(record) || typeof record[0] !== 'number') throw damaged(id)
  let [version, run]: unknown[] = record
  while (version !== RUN_VERSION) {
    const next = typeof version === 'number' ? MIGRATIONS[version] : undefined
    if (next === undefined || typeof version !== 'number') {
      throw new StoreUnreadable(
        `run ${id} has layout ${version}, this switchyard knows ${RUN_VERSION}; install the newer version`,
      )
    }
    run = next(run)
    version++
  }
  if (typeof run !== 'object' || run === null) throw damaged(id)
  // The stored value had this type, and migrations keep it.
  return run as Run
}

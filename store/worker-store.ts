/**
 * Opens a worker's data directory: actor snapshots, and the frames that the host has not acknowledged.
 *
 * The database and its guarantees are those of the host, with a separate lock: an acknowledged commit is on disk, a
 * crash leaves only whole commits, and one daemon at a time uses the directory.
 */
import { join } from 'node:path'
import type { WorkerDatabase } from '../core/daemon/ports.ts'
import type { TakeOver } from '../core/owner.ts'
import type { Clock, RandomSource } from '../core/ports/clock.ts'
import type { Log, Meters } from '../core/ports/log.ts'
import { lockDataDir, makeOwnerOnly, withEmergencySpace } from './data-folder.ts'
import { NotADataDir } from './errors.ts'
import { namesIn, sweepDrafts } from './files/atomic.ts'
import { Installation } from './installation.ts'
import { LmdbControlDatabase } from './lmdb/control-database.ts'
import type { Lock } from './lock.ts'
import { migrateFormat } from './migrate-format.ts'

export interface WorkerStoreOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly takeOver?: TakeOver | undefined
  readonly emergencySpaceBytes?: number
}

/** Only a worker that had a database has written this. */
export const WORKER_TRACES = ['credential.json']

export interface OpenWorkerStore extends WorkerDatabase {
  /** Waits for pending work, then releases the directory. */
  close(): Promise<void>
}

/** Enough space for the final frames of all executions of a worker. */
const EMERGENCY_BYTES = 4 * 1024 * 1024
/** Far more than the frames of all leases of a worker. */
const MAP_BYTES = 16 * 1024 ** 3

/** A worker goes on without its database: its credential is elsewhere, and what is lost cannot be waited for. */
export const EMPTIED =
  'the database of this worker is missing or empty, but the worker has been in use: reports that the host had not ' +
  'acknowledged are lost, and the host begins the runs again that this worker was executing; to save them, stop ' +
  'the worker at once and restore its database'

/** Rejects with DatabaseLost, DataDirInUse, NotADataDir, StoreFull, StoreTooNew or StoreUnreadable. */
export async function openWorkerStore(options: WorkerStoreOptions): Promise<OpenWorkerStore> {
  const { dataDir } = options
  await makeOwnerOnly(dataDir, ['state', 'credential.json'])
  await refuseHostDirectory(dataDir)
  const lock = await lockDataDir(options)
  try {
    return await withEmergencySpace(dataDir, () => openLocked(options, lock))
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Host and worker have the same database format, but neither understands the other's actors. */
async function refuseHostDirectory(dataDir: string): Promise<void> {
  const names = await namesIn(dataDir)
  if (names.includes('runs') && names.includes('usage')) {
    throw new NotADataDir(
      `${dataDir} is the data directory of a host; a worker needs one of its own: name another as --data-dir`,
    )
  }
}

async function openLocked(options: WorkerStoreOptions, lock: Lock): Promise<OpenWorkerStore> {
  const { dataDir, clock, random, log, meters, emergencySpaceBytes = EMERGENCY_BYTES } = options
  await sweepDrafts(dataDir)
  const installation = new Installation({
    dataDir,
    random,
    traces: WORKER_TRACES,
    acceptEmptied: (howToRestore) => log.error({ dataDir, howToRestore }, EMPTIED),
  })
  const database = new LmdbControlDatabase({
    folder: join(dataDir, 'state'),
    clock,
    log,
    meters,
    emergencySpaceBytes,
    mapBytes: MAP_BYTES,
    identifyDatabase: (found) => installation.identify(found),
    findOwnerLoss: () => lock.findLoss(),
  })
  try {
    await installation.record(database.installation)
    await migrateFormat(undefined, database, log)
  } catch (error) {
    await database.close()
    throw error
  }
  const { damage, snapshots, keyValues } = database
  let closing: Promise<void> | undefined
  return {
    damage,
    snapshots,
    keyValues,
    commit: (writes) => database.commit(writes),
    state: () => database.state(),
    onState: (listener) => database.onState(listener),
    close: () => {
      closing ??= database.close().finally(() => lock.release())
      return closing
    },
  }
}

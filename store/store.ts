/**
 * Everything below the data directory: opened together, handed back as ports, closed in order.
 *
 * Moving events from the ledger to their files stops first; what it has asked of the ledger is answered when the
 * ledger closes, and only then is it at rest. The lock is taken first and let go last.
 */
import { join } from 'node:path'
import type { Clock, Log, Meters, RandomSource, Store } from '../core/ports.ts'
import { makeOwnerOnly, withEmergencySpace } from './data-folder.ts'
import { ArtifactsOnDisk } from './files/artifacts.ts'
import { makeFolder, sweepDrafts } from './files/atomic.ts'
import { ConfigFileOnDisk } from './files/config-file.ts'
import { EventLogsOnDisk } from './files/event-log.ts'
import { migrateEventFiles } from './files/migrate-event-files.ts'
import { UsageOnDisk } from './files/usage.ts'
import { LmdbControlDatabase } from './lmdb/control-database.ts'
import { acquireLock, type Lock } from './lock.ts'

export interface StoreOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  /** Room kept for the day on which the disk is full; 16 MiB unless told. */
  readonly emergencySpaceBytes?: number
  readonly mapBytes?: number
}

/** Rejects with DataDirInUse, NotADataDir, StoreFull, StoreTooNew or StoreUnreadable. */
export async function openStore(options: StoreOptions): Promise<Store> {
  await makeOwnerOnly(options.dataDir, ['state', 'config.json'])
  const lock = await withEmergencySpace(options.dataDir, () => acquireLock(options.dataDir, options.random))
  try {
    return await withEmergencySpace(options.dataDir, () => openLocked(options, lock))
  } catch (error) {
    lock.release()
    throw error
  }
}

async function openLocked(options: StoreOptions, lock: Lock): Promise<Store> {
  const { dataDir, clock, log } = options
  const runs = join(dataDir, 'runs')
  const config = new ConfigFileOnDisk(join(dataDir, 'config.json'), clock, log)
  for (const folder of [runs, join(dataDir, 'usage')]) await makeFolder(folder)
  await config.tidy()
  await sweepDrafts(dataDir, 'launch.json')
  const artifacts = new ArtifactsOnDisk(runs)
  const usage = new UsageOnDisk(join(dataDir, 'usage'))
  const database = new LmdbControlDatabase({ ...options, folder: join(dataDir, 'state') })
  const events = await openEvents(options, runs, database)
  const closeSteps = [
    async () => events.stop(),
    () => config.close(),
    () => artifacts.close(),
    () => usage.close(),
    () => database.close(),
    () => events.settled(),
    async () => lock.release(),
  ]
  let closing: Promise<void> | undefined
  return {
    database,
    events,
    artifacts,
    usage,
    config,
    close: () => {
      closing ??= closeAll(closeSteps)
      return closing
    },
  }
}

async function openEvents({ clock, log }: StoreOptions, runs: string, database: LmdbControlDatabase) {
  try {
    await migrateEventFiles(runs, database, log)
    return new EventLogsOnDisk({ runs, database, clock, log })
  } catch (error) {
    await database.close()
    throw error
  }
}

/** One that fails does not keep the others open. */
async function closeAll(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of steps) await close().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

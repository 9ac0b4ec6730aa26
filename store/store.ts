/**
 * Opens everything in the data directory, returns it as ports, and closes it in order.
 *
 * Closing first stops the event flusher. The flusher's last commits are answered when the database closes, and only
 * then is the flusher idle. The lock is acquired first and released last.
 */
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import type { TakeOver } from '../core/owner.ts'
import type { Clock, RandomSource } from '../core/ports/clock.ts'
import type { Log, Meters } from '../core/ports/log.ts'
import type { Store } from '../core/ports/store.ts'
import { lockDataDir, makeOwnerOnly, withEmergencySpace } from './data-folder.ts'
import { ArtifactsOnDisk } from './files/artifacts.ts'
import { makeFolder, sweepDrafts } from './files/atomic.ts'
import { AUDIT_FOLDER, AuditTrailOnDisk } from './files/audit-trail.ts'
import { ConfigFileOnDisk } from './files/config-file.ts'
import { CREDENTIAL_RECORDS_FILE, CredentialRecordsOnDisk } from './files/credential-records-file.ts'
import { EventLogsOnDisk } from './files/event-log.ts'
import type { GuardWrite } from './files/store-queue.ts'
import { UsageOnDisk } from './files/usage.ts'
import { Installation } from './installation.ts'
import { LmdbControlDatabase } from './lmdb/control-database.ts'
import type { Lock } from './lock.ts'
import { migrateFormat } from './migrate-format.ts'
import { findSetAside } from './set-aside-folders.ts'

export interface StoreOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly takeOver?: TakeOver | undefined
  /** Size of the emergency space for a full disk; 16 MiB by default. */
  readonly emergencySpaceBytes?: number
  readonly mapBytes?: number
}

/** Only a host that had a database has written these. */
export const HOST_TRACES = ['runs', 'usage', join('worker', 'credential.json')]

/** Rejects with DatabaseLost, DataDirInUse, NotADataDir, StoreFull, StoreTooNew or StoreUnreadable. */
export async function openStore(options: StoreOptions): Promise<Store> {
  await makeOwnerOnly(options.dataDir, ['state', 'config.json'])
  const lock = await lockDataDir(options)
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
  const guardWrite: GuardWrite = (write) => database.guardWrite(write)
  const config = new ConfigFileOnDisk(join(dataDir, 'config.json'), clock, log, guardWrite)
  for (const folder of [runs, join(dataDir, 'usage'), join(dataDir, AUDIT_FOLDER)]) {
    await makeFolder(folder)
    // Reports that can't be kept would come again and again, no run would end, and nobody would see what was done.
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  }
  await config.tidy()
  for (const name of ['launch.json', CREDENTIAL_RECORDS_FILE]) await sweepDrafts(dataDir, name)
  const credentialRecords = new CredentialRecordsOnDisk(
    join(dataDir, CREDENTIAL_RECORDS_FILE),
    log,
    guardWrite,
  )
  const artifacts = new ArtifactsOnDisk(runs, guardWrite)
  const usage = new UsageOnDisk(join(dataDir, 'usage'), guardWrite)
  const database = await openDatabase(options, lock)
  const events = await openEvents(options, runs, database)
  const trail = await openTrail(options, guardWrite, database)
  const closeSteps = [
    async () => events.stop(),
    () => trail.close(),
    () => config.close(),
    () => credentialRecords.close(),
    () => artifacts.close(),
    () => usage.close(),
    () => database.close(),
    () => events.settled(),
    async () => lock.release(),
  ]
  let closing: Promise<void> | undefined
  return {
    installation: database.installation,
    database,
    events,
    artifacts,
    usage,
    config,
    credentialRecords,
    trail,
    close: () => {
      closing ??= closeAll(closeSteps)
      return closing
    },
  }
}

async function openDatabase(options: StoreOptions, lock: Lock): Promise<LmdbControlDatabase> {
  const { dataDir, random } = options
  const installation = new Installation({ dataDir, random, traces: HOST_TRACES })
  const database = new LmdbControlDatabase({
    ...options,
    folder: join(dataDir, 'state'),
    identifyDatabase: (found) => installation.identify(found),
    findOwnerLoss: () => lock.findLoss(),
  })
  try {
    await installation.record(database.installation)
    for (const damage of findSetAside(dataDir)) database.damage.note(damage)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

async function openEvents({ clock, log }: StoreOptions, runs: string, database: LmdbControlDatabase) {
  try {
    await migrateFormat(runs, database, log)
    await database.repairIndexes()
    return new EventLogsOnDisk({ runs, database, clock, log })
  } catch (error) {
    await database.close()
    throw error
  }
}

async function openTrail(
  { dataDir, clock, log }: StoreOptions,
  guardWrite: GuardWrite,
  database: LmdbControlDatabase,
) {
  try {
    return await AuditTrailOnDisk.open({ folder: join(dataDir, AUDIT_FOLDER), clock, log, guardWrite })
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Closes all parts, even when one of them fails. */
async function closeAll(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of steps) await close().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

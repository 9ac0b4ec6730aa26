/**
 * Everything below the data directory: opened together, handed back as ports, closed in order.
 *
 * Moving events from the ledger to their files stops first; what it has asked of the ledger is answered when the
 * ledger closes, and only then is it at rest. The lock is taken first and let go last.
 */
import { chmod, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Chance, Clock, Log, Meters, Store } from '../core/ports.ts'
import { isNoRoom, NotADataDir } from './failures.ts'
import { adoptEventFiles } from './files/adopt.ts'
import { ArtifactsOnDisk } from './files/artifacts.ts'
import { makeFolder, sweepDrafts } from './files/atomic.ts'
import { ConfigFileOnDisk } from './files/config-file.ts'
import { EventLogsOnDisk } from './files/event-log.ts'
import { UsageOnDisk } from './files/usage.ts'
import { LmdbLedger } from './lmdb/ledger.ts'
import { acquireLock, type Lock } from './lock.ts'

export interface StoreOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly meters: Meters
  /** Room kept for the day on which the disk is full; 16 MiB unless told. */
  readonly ballastBytes?: number
  readonly mapBytes?: number
}

/** Rejects with DataDirInUse, NotADataDir, StoreFull, StoreTooNew or StoreUnreadable. */
export async function openStore(options: StoreOptions): Promise<Store> {
  await makeOwnerOnly(options.dataDir)
  const lock = await withBallast(options.dataDir, () => acquireLock(options.dataDir, options.chance))
  try {
    return await withBallast(options.dataDir, () => openLocked(options, lock))
  } catch (error) {
    lock.release()
    throw error
  }
}

/** On a full disk the ballast of the last life goes overboard, and what met the full disk is tried once more. */
async function withBallast<T>(dataDir: string, attempt: () => T | Promise<T>): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    if (!isNoRoom(error)) throw error
    await rm(join(dataDir, 'state', 'ballast'), { force: true })
    return await attempt()
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
  const ledger = new LmdbLedger({ ...options, folder: join(dataDir, 'state') })
  const events = await openEvents(options, runs, ledger)
  const inOrder = [
    async () => events.stop(),
    () => config.close(),
    () => artifacts.close(),
    () => usage.close(),
    () => ledger.close(),
    () => events.settled(),
    async () => lock.release(),
  ]
  let closing: Promise<void> | undefined
  return {
    ledger,
    events,
    artifacts,
    usage,
    config,
    close: () => {
      closing ??= closeAll(inOrder)
      return closing
    },
  }
}

async function openEvents({ clock, log }: StoreOptions, runs: string, ledger: LmdbLedger) {
  try {
    await adoptEventFiles(runs, ledger, log)
    return new EventLogsOnDisk({ runs, ledger, clock, log })
  } catch (error) {
    await ledger.close()
    throw error
  }
}

/** One that fails does not keep the others open. */
async function closeAll(inOrder: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of inOrder) await close().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

async function makeOwnerOnly(folder: string): Promise<void> {
  await makeFolder(folder)
  const { mode } = await stat(folder)
  if ((mode & 0o077) === 0) return
  if (!(await isOurs(folder))) {
    throw new NotADataDir(
      `${folder} holds other things and is open to others, so it is left alone; name an empty or new folder as --data-dir`,
    )
  }
  await chmod(folder, 0o700)
}

/** A home or a shared folder, named by mistake, must not be closed to those who use it. */
async function isOurs(folder: string): Promise<boolean> {
  const names = await readdir(folder)
  return names.length === 0 || names.includes('state') || names.includes('config.json')
}

/**
 * Everything below the data directory: opened together, handed back as ports, closed in order.
 *
 * The event logs close before the ledger, so that what the ledger says about their lengths is never ahead of them.
 * The lock is taken first and let go last.
 */
import { chmod, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Chance, Clock, Log, Meters, Store } from '../core/ports.ts'
import { ArtifactsOnDisk } from './files/artifacts.ts'
import { makeFolder } from './files/atomic.ts'
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

/** Rejects with DataDirInUse, StoreTooNew or StoreUnreadable. */
export async function openStore(options: StoreOptions): Promise<Store> {
  await makeOwnerOnly(options.dataDir)
  const lock = acquireLock(options.dataDir, options.chance)
  try {
    return await openLocked(options, lock)
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
  const events = new EventLogsOnDisk(runs)
  const artifacts = new ArtifactsOnDisk(runs)
  const usage = new UsageOnDisk(join(dataDir, 'usage'))
  const ledger = new LmdbLedger({ ...options, folder: join(dataDir, 'state') })
  const inOrder = [
    () => config.close(),
    () => events.closeAll(),
    () => artifacts.settled(),
    () => usage.settled(),
    () => ledger.close(),
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

/** One that fails does not keep the others open. */
async function closeAll(inOrder: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of inOrder) await close().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

async function makeOwnerOnly(folder: string): Promise<void> {
  await makeFolder(folder)
  const { mode } = await stat(folder)
  if ((mode & 0o077) !== 0) await chmod(folder, 0o700)
}

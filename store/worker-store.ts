/**
 * A worker's own data directory: its lives, and the frames that the host has not acknowledged yet.
 *
 * The same ledger as the host's with the same promises, beside a lock of its own: what a commit answered is on disk,
 * a crash at any instant leaves whole commits and no halves of them, and one daemon works here at a time.
 */
import { join } from 'node:path'
import type { Spool } from '../core/daemon/ports.ts'
import type { Chance, Clock, Log, Meters } from '../core/ports.ts'
import { makeOwnerOnly, withBallast } from './data-folder.ts'
import { NotADataDir } from './errors.ts'
import { namesIn, sweepDrafts } from './files/atomic.ts'
import { LmdbLedger } from './lmdb/control-database.ts'
import { acquireLock, type Lock } from './lock.ts'

export interface SpoolOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly meters: Meters
  readonly ballastBytes?: number
}

export interface OpenSpool extends Spool {
  /** Waits for what is under way, then lets go of the directory. */
  close(): Promise<void>
}

/** Enough for the last words of every execution of a worker. */
const BALLAST_BYTES = 4 * 1024 * 1024
/** Far above the frames that all leases of a worker may keep. */
const MAP_BYTES = 16 * 1024 ** 3

/** Rejects with DataDirInUse, NotADataDir, StoreFull, StoreTooNew or StoreUnreadable. */
export async function openSpool(options: SpoolOptions): Promise<OpenSpool> {
  const { dataDir, chance } = options
  await makeOwnerOnly(dataDir, ['state', 'credential.json'])
  await refuseHosts(dataDir)
  const lock = await withBallast(dataDir, () => acquireLock(dataDir, chance))
  try {
    return await withBallast(dataDir, () => openLocked(options, lock))
  } catch (error) {
    lock.release()
    throw error
  }
}

/** The two databases look alike, and neither program would understand the other's lives. */
async function refuseHosts(dataDir: string): Promise<void> {
  const names = await namesIn(dataDir)
  if (names.includes('runs') && names.includes('usage')) {
    throw new NotADataDir(
      `${dataDir} is the data directory of a host; a worker needs one of its own: name another as --data-dir`,
    )
  }
}

async function openLocked(options: SpoolOptions, lock: Lock): Promise<OpenSpool> {
  const { dataDir, clock, log, meters, ballastBytes = BALLAST_BYTES } = options
  await sweepDrafts(dataDir)
  const folder = join(dataDir, 'state')
  const ledger = new LmdbLedger({ folder, clock, log, meters, ballastBytes, mapBytes: MAP_BYTES })
  const { lives, facts } = ledger
  let closing: Promise<void> | undefined
  return {
    lives,
    facts,
    commit: (writes) => ledger.commit(writes),
    state: () => ledger.state(),
    onState: (listener) => ledger.onState(listener),
    close: () => {
      closing ??= ledger.close().finally(() => lock.release())
      return closing
    },
  }
}

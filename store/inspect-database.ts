/**
 * Tells whether a start would accept the database of a data directory, without changing anything there.
 *
 * Call it while no process uses the directory.
 */
import { join } from 'node:path'
import type { RandomSource } from '../core/ports.ts'
import { Installation } from './installation.ts'
import { readOrigin } from './lmdb/read-origin.ts'
import { HOST_TRACES } from './store.ts'
import { WORKER_TRACES } from './worker-store.ts'

/** Rejects with DatabaseLost, StoreTooNew or StoreUnreadable, like the start would. */
export async function inspectDatabase(
  dataDir: string,
  owner: 'host' | 'worker',
  random: RandomSource,
): Promise<void> {
  const traces = owner === 'host' ? HOST_TRACES : WORKER_TRACES
  const installation = new Installation({ dataDir, random, traces })
  installation.identify(await readOrigin(join(dataDir, 'state')))
}

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

/**
 * Returns how to restore a worker's database that is missing or empty, because a worker starts without it. Rejects with
 * DatabaseLost, StoreTooNew or StoreUnreadable, like the start would.
 */
export async function inspectDatabase(
  dataDir: string,
  owner: 'host' | 'worker',
  random: RandomSource,
): Promise<string | undefined> {
  let restoring: string | undefined
  const acceptEmptied = (howToRestore: string) => {
    restoring = howToRestore
  }
  const installation = new Installation(
    owner === 'host'
      ? { dataDir, random, traces: HOST_TRACES }
      : { dataDir, random, traces: WORKER_TRACES, acceptEmptied },
  )
  installation.identify(readOrigin(join(dataDir, 'state')))
  return restoring
}

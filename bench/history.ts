/**
 * Keeps a data directory with many finished runs below node_modules/.cache, and creates it once.
 *
 * A change of the code that writes it makes a new one and removes older ones. Users get a copy, because a host
 * writes into its data directory.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, cp, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type BenchResources, waitForSuccess } from './bench-resources.ts'

export const HISTORY_RUNS = 100_000
const PREFIX = 'bench-history-'
const WRITERS = [
  'store/lmdb',
  'protocol/run.ts',
  'protocol/cost.ts',
  'bench/raw/fill-store.ts',
  'bench/raw/stored-runs.ts',
] as const

/** Returns a copy in a temporary folder. */
export async function dataDirWithHistory(resources: BenchResources): Promise<string> {
  const kept = await cachedHistory(resources)
  const copy = resources.createFolder('history')
  await cp(kept, copy, { recursive: true, mode: constants.COPYFILE_FICLONE })
  await syncFile(join(copy, 'state', 'data.mdb'))
  return copy
}

/** Otherwise the system would write the file while somebody measures a sync. */
async function syncFile(file: string): Promise<void> {
  const handle = await open(file, 'r+')
  await handle.sync().finally(() => handle.close())
}

async function cachedHistory(resources: BenchResources): Promise<string> {
  const kept = join(resources.cache, `${PREFIX}${HISTORY_RUNS}-${await fingerprint(resources.root)}`)
  if (await exists(kept)) return kept
  for (const name of await readdir(resources.cache)) {
    if (name.startsWith(PREFIX)) await rm(join(resources.cache, name), { recursive: true, force: true })
  }
  console.error(`making a store with ${HISTORY_RUNS} finished runs (once) …`)
  const making = resources.createFolder('seed')
  await waitForSuccess(
    resources.startScript('bench/raw/fill-store.ts', making, String(HISTORY_RUNS)),
    'seeding',
  )
  await rename(making, kept)
  return kept
}

async function fingerprint(root: string): Promise<string> {
  const hash = createHash('sha256')
  for (const place of WRITERS) {
    const path = join(root, place)
    const files = place.endsWith('.ts')
      ? [path]
      : (await readdir(path)).sort().map((name) => join(path, name))
    for (const file of files) hash.update(await readFile(file))
  }
  return hash.digest('hex').slice(0, 12)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

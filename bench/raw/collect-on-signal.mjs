/**
 * A preload for measured processes: collects garbage on SIGUSR2, and then writes the memory in use to a file.
 *
 * The environment variable `SWITCHYARD_BENCH_MEMORY` names the file. Only the bench loads this file.
 */
import { renameSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')
const file = process.env.SWITCHYARD_BENCH_MEMORY
const COLLECTIONS = 3
/** Meanwhile finalizers run, and a thread returns empty pages to the system. */
const PAUSE_MS = 200

process.on('SIGUSR2', async () => {
  for (let time = 0; time < COLLECTIONS; time++) {
    collect()
    await sleep(PAUSE_MS)
  }
  writeFileSync(`${file}.new`, JSON.stringify(process.memoryUsage()))
  renameSync(`${file}.new`, file)
})

/**
 * Adds a finished run with a long log to a data directory, and prints the run's id.
 *
 * Arguments: the folder, and the size of the log in MiB. The log goes through the store, as that of a run does, and the
 * script ends when it is in the file of the run.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import { openStore } from '../../store/store.ts'
import { noMeters, silentLog } from '../silent-log.ts'
import { finishedRunWrites } from './stored-runs.ts'

const MIB = 1024 * 1024
const LINES_PER_COMMIT = 4_000
const TEXT = 'compiling a module, and saying so in a line as long as most lines of a log are. '.repeat(3)
const MOVE_CHECK_MS = 50

const [folder = '', mib = '1'] = process.argv.slice(2)
const store = await openStore({
  dataDir: folder,
  clock: realClock,
  random: realRandom,
  log: silentLog,
  meters: noMeters,
})
const writes = finishedRunWrites(store.database.runs.count())
await store.database.commit(writes)
const [runId = ''] = writes.flatMap((write) => (write.table === 'run' ? [write.id] : []))
let index = 0
while (store.events.storedBytes(runId) < Number(mib) * MIB) {
  const first = index
  let lines = ''
  for (; index < first + LINES_PER_COMMIT; index++)
    lines += `${JSON.stringify({ runId, index, at: new Date().toISOString(), type: 'log', stream: 'stdout', text: TEXT })}\n`
  await store.database.commit([
    { table: 'events', runId, first, count: LINES_PER_COMMIT, lines: Buffer.from(lines) },
  ])
}
const file = join(folder, 'runs', runId, 'events.jsonl')
while ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) < store.events.storedBytes(runId))
  await sleep(MOVE_CHECK_MS)
await store.close()
console.log(runId)

/**
 * Fills a data directory with runs through the store's own ports.
 *
 * Arguments: the folder; how many runs are finished, held by workers, and waiting, in the order of their creation.
 * More runs may be added to a folder whose runs are all finished. Runs in its own process, so that its memory does
 * not count. Fills only the control database, because hosts read the event log of a finished run only on request.
 */
import { realClock, realRandom } from '../../bin/process/clock.ts'
import type { Write } from '../../core/ports/store.ts'
import { openStore } from '../../store/store.ts'
import { noMeters, silentLog } from '../silent-log.ts'
import { finishedRunWrites, heldRunWrites, waitingRunWrites } from './stored-runs.ts'

/** More would leave free pages in the file. */
const BATCH = 2_000

const [folder = '', ...counts] = process.argv.slice(2)
const [finishedRuns = 0, heldRuns = 0, waitingRuns = 0] = counts.map(Number)

const store = await openStore({
  dataDir: folder,
  clock: realClock,
  random: realRandom,
  log: silentLog,
  meters: noMeters,
})
const before = store.database.runs.count()
await addRuns(finishedRuns, (_, at) => finishedRunWrites(at))
await addRuns(heldRuns, (nth, at) => heldRunWrites(at, nth))
await addRuns(waitingRuns, (_, at) => waitingRunWrites(at))
const [found, wanted] = [store.database.runs.count(), before + finishedRuns + heldRuns + waitingRuns]
await store.close()
if (found !== wanted) throw new Error(`the store counts ${found} runs, not ${wanted}`)

async function addRuns(
  count: number,
  writesOf: (nth: number, at: number) => readonly Write[],
): Promise<void> {
  const first = store.database.runs.count()
  let committed: Promise<unknown> = Promise.resolve()
  for (let from = 0; from < count; from += BATCH) {
    const size = Math.min(BATCH, count - from)
    const writes = Array.from({ length: size }, (_, each) => writesOf(from + each, first + from + each))
    // The next batch is created while this one is written.
    await committed
    committed = store.database.commit(writes.flat())
  }
  await committed
}

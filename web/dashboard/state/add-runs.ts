/** Adds runs to the records that a request has read. The first load does not contain this file. */
import type { Run } from '../../../protocol/run.ts'
import { host } from './host.ts'
import { runs } from './records.ts'

/** Reads a run that is not among the records. */
export async function loadRun(id: string): Promise<void> {
  const before = runs.peek()
  addRuns([await host.readRun({ id })], before)
}

/**
 * Adds runs that a request has read; what was pushed meanwhile is newer than the answer.
 *
 * @param before the records when the request began; without them only what is missing is added
 */
export function addRuns(read: readonly Run[], before?: ReadonlyMap<string, Run>): void {
  const changed = new Map(runs.value)
  for (const run of read) if (changed.get(run.id) === before?.get(run.id)) changed.set(run.id, run)
  runs.value = changed
}

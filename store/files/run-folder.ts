/** Where a run's files are. A run id is made by us and safe as a name; anything else is a bug, and reaches no disk. */
import { join } from 'node:path'

const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

export function runFolder(runs: string, runId: string): string {
  if (!RUN_ID.test(runId)) throw new TypeError(`not a run id: ${JSON.stringify(runId.slice(0, 80))}`)
  return join(runs, runId)
}

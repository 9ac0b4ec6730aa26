/** Paths of a run's files. */
import { join } from 'node:path'
import { requireRunId } from '../event-order.ts'

/** Throws when the text is not a run id. */
export function runFolder(runs: string, runId: string): string {
  requireRunId(runId)
  return join(runs, runId)
}

export function eventsFile(runs: string, runId: string): string {
  return join(runFolder(runs, runId), 'events.jsonl')
}

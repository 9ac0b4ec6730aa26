/** Converts between lists of events and the batches in which a log is read. */
import type { EventBatches, EventLogs, EventQuery } from '../../core/ports/store.ts'
import type { RunEvent } from '../../protocol/run.ts'

export async function collectEvents(batches: EventBatches): Promise<RunEvent[]> {
  const events: RunEvent[] = []
  for await (const batch of batches) for (const line of batch) events.push(JSON.parse(line))
  return events
}

export const readEvents = (
  logs: Pick<EventLogs, 'read'>,
  runId: string,
  query?: EventQuery,
): Promise<RunEvent[]> => collectEvents(logs.read(runId, query))

export async function* batchesOf(events: readonly RunEvent[]): EventBatches {
  yield events.map((event) => JSON.stringify(event))
}

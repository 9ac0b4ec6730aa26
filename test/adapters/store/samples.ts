/** Sample runs, snapshots and events for the store's tests. */
import type { ActorSnapshot, KeyValueCollection, Write } from '../../../core/ports/store.ts'
import type { Run, RunEvent, RunStatus } from '../../../protocol/run.ts'

const AT = '2026-01-31T12:00:00.000Z'

export const runId = (n: number): string => `run-${n.toString(16).padStart(32, '0')}`

export function sampleRun(n: number, status: RunStatus = 'queued', ticket = `t-${n}`): Run {
  return {
    id: runId(n),
    status,
    sandbox: { provider: 'bwrap' },
    createdAt: AT,
    costs: [],
    ...(n % 2 === 0 ? { queueReason: 'no workers connected' } : {}),
    ticket: {
      id: ticket,
      identifier: `ENG-${ticket}`,
      title: `Ticket ${n} with ünïcödé ⚙`,
      description: 'A paragraph.\n'.repeat(n % 5),
      url: 'https://tracker.example/1',
      state: 'Todo',
      priority: 2,
      labels: ['a', 'b'],
      blockedBy: [],
      createdAt: AT,
      updatedAt: AT,
    },
  }
}

/** Accepts every database: all are of one installation. */
export const identifyDatabase = (): string => 'in-00000000000000aa'

export const putRun = (run: Run): Write => ({ table: 'run', id: run.id, run })

export const sampleSnapshot = (n: number): ActorSnapshot => ({
  v: 1,
  s: 'held',
  c: { n, list: [1, 'two', null], deep: { at: n } },
})

export const putSnapshot = (kind: string, key: string, record: ActorSnapshot | null): Write => ({
  table: 'snapshot',
  kind,
  key,
  record,
})

export function logEvent(run: string, index: number, text = `line ${index}`): RunEvent {
  return { runId: run, index, at: AT, type: 'log', stream: 'stdout', text }
}

export const logEvents = (run: string, from: number, to: number): RunEvent[] =>
  Array.from({ length: to - from }, (_, i) => logEvent(run, from + i))

/** Builds the write of a chunk of events. */
export function putEvents(run: string, events: readonly RunEvent[]): Write {
  return {
    table: 'events',
    runId: run,
    first: events[0]?.index ?? 0,
    count: events.length,
    lines: Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join('')),
  }
}

export const putKeyValue = (collection: KeyValueCollection, key: string, value: object | null): Write => ({
  table: 'key-value',
  collection,
  key,
  value,
})

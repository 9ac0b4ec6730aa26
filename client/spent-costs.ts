/**
 * Tells what runs have cost, and when each of their executions reported it.
 *
 * The record of a run has no instant for an entry of its costs. A run whose work fell on one side of every border that
 * is asked for needs none. For the others the run's events say when each execution reported its costs, as the host's
 * metrics count them: a follow-up of today does not move the costs of yesterday.
 */
import type { CostEntry } from '../protocol/cost.ts'
import type { Run, RunEvent } from '../protocol/run.ts'
import type { Client } from './client.ts'
import type { ClientConnection } from './connection.ts'
import { beginningOf } from './run-beginning.ts'
import { hasEnded, readEvents } from './run-events.ts'

export interface SpentCost {
  readonly run: Run
  readonly entry: CostEntry
  /** Wall milliseconds. */
  readonly at: number
}

export interface SpentOptions {
  /** Only what was spent from then on, in wall milliseconds. */
  readonly since: number
  /** The days of the instants must be right. */
  readonly areDaysAsked: boolean
}

export interface SpentContext {
  /** Wall milliseconds. */
  readonly now: number
  /** The local day of an instant. */
  readonly dayOf: (at: number) => string
  /** When the costs with each label were last reported. */
  readonly instantsOf: (run: Run) => Promise<ReadonlyMap<string, number>>
}

const PAGE = 200
const LAST_EVENTS = 200

/** Returns the costs of one run since the instant. */
export async function readCostsOf(
  { now, dayOf, instantsOf }: SpentContext,
  run: Run,
  { since, areDaysAsked }: SpentOptions,
): Promise<SpentCost[]> {
  const [begin, end] = [Date.parse(run.createdAt), lastReportOf(run, now)]
  if (run.costs.length === 0 || end < since) return []
  const crossesDay = areDaysAsked && dayOf(begin) !== dayOf(end)
  const instants = crossesDay || begin < since ? await instantsOf(run) : new Map<string, number>()
  const spent = run.costs.map((entry) => ({ run, entry, at: instants.get(entry.label) ?? end }))
  return spent.filter(({ at }) => at >= since)
}

/** All of them, newest first, because an old run may have been followed up today. */
export async function* readAllRuns(client: Pick<Client, 'listRuns'>): AsyncGenerator<Run> {
  let before: string | undefined
  for (;;) {
    const page = await client.listRuns({ limit: PAGE, ...(before === undefined ? {} : { before }) })
    yield* page
    before = page.at(-1)?.id
    if (before === undefined || page.length < PAGE) return
  }
}

/** The instant of costs without an event: those of an active run are spent now. */
function lastReportOf(run: Run, now: number): number {
  if (hasEnded(run)) return Date.parse(run.finishedAt ?? run.startedAt ?? beginningOf(run))
  return run.status === 'queued' ? Date.parse(beginningOf(run)) : now
}

/** Reads when the costs with each label were last reported. The last events mostly say so, and a log may be long. */
export async function readInstants(
  client: Pick<Client, 'readRunEvents'>,
  connection: ClientConnection,
  run: Run,
): Promise<Map<string, number>> {
  const instants = new Map<string, number>()
  const add = (event: RunEvent) => {
    if (event.type === 'cost') instants.set(event.entry.label, Date.parse(event.at))
  }
  for (const event of await client.readRunEvents({ id: run.id, tail: LAST_EVENTS })) add(event)
  if (run.costs.every(({ label }) => instants.has(label))) return instants
  for await (const event of readEvents(connection, run.id)) add(event)
  return instants
}

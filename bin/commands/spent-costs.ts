/**
 * Reads what runs have cost, and when each of their executions reported it.
 *
 * The record of a run has no instant for an entry of its costs. A run whose work fell on one side of every border that
 * is asked for needs none. For the others the run's events say when each execution reported its costs, as the host's
 * metrics count them: a follow-up of today does not move the costs of yesterday.
 */
import type { Client } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { hasEnded, readEvents } from '../../client/run-events.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommandContext } from '../client/run-command.ts'
import { formatLocalDay } from '../output/times.ts'
import { beginningOf } from './run-beginning.ts'

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

const PAGE = 200

export type SpentContext = Pick<CommandContext, 'client' | 'connection' | 'present'>

export async function readSpentCosts(context: SpentContext, options: SpentOptions): Promise<SpentCost[]> {
  const { client, connection, present } = context
  const { now, offset } = present()
  const { since, areDaysAsked } = options
  const spent: SpentCost[] = []
  for await (const run of readRuns(client)) {
    const [begin, end] = [Date.parse(run.createdAt), lastReportOf(run, now)]
    if (run.costs.length === 0 || end < since) continue
    const crossesDay = areDaysAsked && formatLocalDay(begin, offset) !== formatLocalDay(end, offset)
    const instants = crossesDay || begin < since ? await readInstants(connection, run.id) : new Map()
    spent.push(...run.costs.map((entry) => ({ run, entry, at: instants.get(entry.label) ?? end })))
  }
  return spent.filter(({ at }) => at >= since)
}

/** All of them, because an old run may have been followed up today. */
async function* readRuns(client: Client): AsyncGenerator<Run> {
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

/** When the costs with each label were last reported. */
async function readInstants(connection: ClientConnection, runId: string): Promise<Map<string, number>> {
  const instants = new Map<string, number>()
  for await (const event of readEvents(connection, runId))
    if (event.type === 'cost') instants.set(event.entry.label, Date.parse(event.at))
  return instants
}

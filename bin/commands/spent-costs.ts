/**
 * Reads what runs have cost, and when each of their executions reported it.
 *
 * The record of a run has no instant for an entry of its costs. A run whose work fell on one side of every border that
 * is asked for needs none. For the others the run's events say when each execution reported its costs, as the host's
 * metrics count them: a follow-up of today does not move the costs of yesterday.
 */
import type { Client } from '../../client/client.ts'
import { hasEnded, readEvents } from '../../client/run-events.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
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
const LAST_EVENTS = 200

export type SpentContext = Pick<CommandContext, 'client' | 'connection' | 'present'>

export async function readSpentCosts(context: SpentContext, options: SpentOptions): Promise<SpentCost[]> {
  const spent: SpentCost[] = []
  for await (const run of readRuns(context.client)) spent.push(...(await readCostsOf(context, run, options)))
  return spent
}

/** Returns the costs of one run since the instant. */
export async function readCostsOf(
  context: SpentContext,
  run: Run,
  { since, areDaysAsked }: SpentOptions,
): Promise<SpentCost[]> {
  const { now, offset } = context.present()
  const [begin, end] = [Date.parse(run.createdAt), lastReportOf(run, now)]
  if (run.costs.length === 0 || end < since) return []
  const crossesDay = areDaysAsked && formatLocalDay(begin, offset) !== formatLocalDay(end, offset)
  const instants = crossesDay || begin < since ? await readInstants(context, run) : new Map()
  const spent = run.costs.map((entry) => ({ run, entry, at: instants.get(entry.label) ?? end }))
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

/** When the costs with each label were last reported. The last events mostly say so, and a log may be long. */
async function readInstants({ client, connection }: SpentContext, run: Run): Promise<Map<string, number>> {
  const instants = new Map<string, number>()
  const add = (event: RunEvent) => {
    if (event.type === 'cost') instants.set(event.entry.label, Date.parse(event.at))
  }
  for (const event of await client.readRunEvents({ id: run.id, tail: LAST_EVENTS })) add(event)
  if (run.costs.every(({ label }) => instants.has(label))) return instants
  for await (const event of readEvents(connection, run.id)) add(event)
  return instants
}

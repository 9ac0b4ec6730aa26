/**
 * Adds up what runs have cost, by day, repository, model or agent: the one sum of the commands and of the pages.
 *
 * A run's record names its costs without their instants, which are read from the run's events where they matter.
 */
import type { CostEntry } from '../protocol/cost.ts'
import type { CostGroup } from '../protocol/cost-groups.ts'
import type { Run, RunEvent } from '../protocol/run.ts'
import type { Client } from './client.ts'
import type { ClientConnection } from './connection.ts'
import { beginningOf } from './run-beginning.ts'
import { hasEnded, readEvents } from './run-events.ts'

/** A row: the sum of all entries with the same key. */
export interface CostSum {
  readonly key: string
  readonly runs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** Absent when no entry names an amount. */
  readonly costUsd?: number
  /** The part of `costUsd` that was computed, not billed. */
  readonly estimatedUsd?: number
}

export interface SpentCost {
  readonly run: Run
  readonly entry: CostEntry
  /** Wall milliseconds. */
  readonly at: number
}

/** The usage of one agent execution, or of one model in it. */
export type CostPart = Pick<
  CostEntry,
  | 'provider'
  | 'inputTokens'
  | 'outputTokens'
  | 'cacheReadTokens'
  | 'cacheWriteTokens'
  | 'costUsd'
  | 'estimated'
  | 'source'
> & {
  readonly key: string
  readonly run: Run
  /** Wall milliseconds. */
  readonly at: number
}

/** Stands where the record of a run does not name the repository or the model. */
export const NO_KEY = '-'

/** Only a row for each model needs the parts of an entry. */
export function partsOf(cost: SpentCost, by: CostGroup, dayOf: (at: number) => string): CostPart[] {
  const { run, at, entry } = cost
  const { provider, estimated, source, breakdown = [] } = entry
  if (by !== 'model') return [{ ...entry, run, at, key: keyOf(cost, by, dayOf) }]
  if (breakdown.length === 0) return [{ ...entry, run, at, key: entry.model ?? NO_KEY }]
  return breakdown.map((usage) => ({
    ...usage,
    provider,
    estimated,
    run,
    at,
    key: usage.model,
    ...(source === undefined ? {} : { source }),
  }))
}

function keyOf(
  { run, entry, at }: SpentCost,
  by: Exclude<CostGroup, 'model'>,
  dayOf: (at: number) => string,
): string {
  if (by === 'day') return dayOf(at)
  return by === 'agent' ? entry.provider : (run.ticket.repo ?? run.pull?.remote ?? NO_KEY)
}

/** Such a part names tokens only. */
export const isUnpriced = ({ costUsd }: Pick<CostPart, 'costUsd'>): boolean => costUsd === undefined

/** A sum for each key, in the order of the keys. */
export function groupParts(parts: readonly CostPart[]): CostSum[] {
  const groups = new Map<string, CostPart[]>()
  for (const part of parts) {
    const members = groups.get(part.key)
    if (members === undefined) groups.set(part.key, [part])
    else members.push(part)
  }
  const sums = [...groups].map(([key, members]) => sumOf(key, members))
  return sums.sort((a, b) => (a.key < b.key ? -1 : 1))
}

type TokenCount = 'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'

export function sumOf(key: string, parts: readonly CostPart[]): CostSum {
  const tokens = (name: TokenCount) => parts.reduce((sum, part) => sum + part[name], 0)
  const priced = parts.filter((part) => !isUnpriced(part))
  const estimated = priced.filter((part) => part.estimated)
  return {
    key,
    runs: new Set(parts.map(({ run }) => run.id)).size,
    inputTokens: tokens('inputTokens'),
    outputTokens: tokens('outputTokens'),
    cacheReadTokens: tokens('cacheReadTokens'),
    cacheWriteTokens: tokens('cacheWriteTokens'),
    ...(priced.length === 0 ? {} : { costUsd: dollarsOf(priced) }),
    ...(estimated.length === 0 ? {} : { estimatedUsd: dollarsOf(estimated) }),
  }
}

const USD_DIGITS = 9

/** Sums of binary fractions have digits behind the last one that means something. */
const dollarsOf = (parts: readonly CostPart[]): number =>
  Number(parts.reduce((sum, { costUsd = 0 }) => sum + costUsd, 0).toFixed(USD_DIGITS))

// ---- what runs have spent, and when ------------------------------------------------------------------------------

interface SpentOptions {
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

/**
 * Returns the costs of one run since the instant.
 *
 * A run whose work fell on one side of every border that is asked for needs no instants. For the others the run's events
 * say when each execution reported its costs, as the host's metrics count them: a follow-up of today does not move the
 * costs of yesterday.
 */
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

const PAGE = 200

/** Yields all runs, newest first, because an old run may have been followed up today. */
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

const LAST_EVENTS = 200

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

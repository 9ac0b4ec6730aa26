/**
 * What agentA's transcripts tell of its use: one file for the session, one for each nested agent.
 *
 * An answer has a line for each of its blocks, each with the figures so far; its id and its request's are what says
 * that they are one.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { AgentFiles } from './agent.ts'
import { apiTokens } from './agent-a-bill.ts'
import { PROJECTS } from './agent-a-command.ts'
import { field, isObject, type JsonObject, objectAt, objectIn, textAt } from './json-lines.ts'
import { isPathSafe, type ToldUse, type UsageTally, usageTallies } from './usage.ts'

/** An agent can make any number of folders. */
const PROJECTS_MAX = 100
const SUBAGENTS_MAX = 1_000
const SUBAGENT_FILE = /^agent-([A-Za-z0-9_-]{1,100})\.jsonl$/

export async function agentAUsage(
  files: AgentFiles,
  sessionId: string,
  prices: PriceTable,
): Promise<UsageSnapshot[]> {
  if (!isPathSafe(sessionId)) return []
  const snapshots: UsageSnapshot[] = []
  const begin = usageTallies(prices)
  for (const projectKey of (await files.list(PROJECTS)).filter(isPathSafe).slice(0, PROJECTS_MAX)) {
    const folder = `${PROJECTS}/${projectKey}`
    const place = { projectKey, sessionId }
    const main = await tallied(files, `${folder}/${sessionId}.jsonl`, begin)
    snapshots.push(...present(main.snapshot(place)))
    snapshots.push(...(await nested(files, `${folder}/${sessionId}/subagents`, place, begin)))
  }
  return snapshots
}

async function nested(
  files: AgentFiles,
  folder: string,
  place: Pick<UsageSnapshot, 'projectKey' | 'sessionId'>,
  begin: () => UsageTally,
): Promise<UsageSnapshot[]> {
  const snapshots: UsageSnapshot[] = []
  for (const name of (await files.list(folder)).slice(0, 2 * SUBAGENTS_MAX)) {
    const subagentId = SUBAGENT_FILE.exec(name)?.[1]
    if (subagentId === undefined || snapshots.length >= SUBAGENTS_MAX) continue
    const tally = await tallied(files, `${folder}/${name}`, begin)
    snapshots.push(...present(tally.snapshot({ ...place, subagentId })))
  }
  return snapshots
}

const present = (snapshot: UsageSnapshot | undefined): UsageSnapshot[] =>
  snapshot === undefined ? [] : [snapshot]

async function tallied(files: AgentFiles, path: string, begin: () => UsageTally): Promise<UsageTally> {
  const tally = begin()
  for await (const text of files.lines(path)) {
    // Most of a transcript is long and about something else.
    const line = text.includes('"assistant"') ? objectIn(text) : undefined
    const told = line === undefined ? undefined : toldIn(line)
    if (told !== undefined) tally.add(told)
  }
  return tally
}

function toldIn(line: JsonObject): ToldUse | undefined {
  const message = objectAt(line, 'message')
  const model = textAt(message, 'model')
  if (textAt(line, 'type') !== 'assistant' || model === '<synthetic>') return undefined
  if (!isObject(field(message, 'usage'))) return undefined
  const ids = [textAt(message, 'id') ?? textAt(line, 'uuid'), textAt(line, 'requestId')]
  return {
    id: ids.filter((id) => id !== undefined).join(' '),
    at: textAt(line, 'timestamp'),
    model,
    use: apiTokens(objectAt(message, 'usage')),
  }
}

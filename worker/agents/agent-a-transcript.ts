/**
 * One session of agentA's as its transcripts have it: a file for the session, one for each nested agent.
 *
 * An answer has a line for each of its blocks, each with the figures so far; its id and its request's are what says
 * that they are one.
 */
import type { AgentFiles } from './agent.ts'
import { apiTokens } from './agent-a-bill.ts'
import { PROJECTS } from './agent-a-command.ts'
import { Accounts, Answers } from './agent-a-unsaid.ts'
import { field, isObject, type JsonObject, objectAt, objectIn, textAt } from './json-lines.ts'
import type { ToldUse, UsagePlace, UsageTally } from './usage.ts'

export interface Reading {
  readonly files: AgentFiles
  readonly begin: () => UsageTally
  /** How many transcripts are still read. */
  left: number
}

export interface SessionUse {
  readonly place: UsagePlace
  readonly main: UsageTally
  readonly nested: readonly { readonly place: UsagePlace; readonly tally: UsageTally }[]
}

const SUBAGENT_FILE = /^agent-([A-Za-z0-9_-]{1,100})\.jsonl$/

export async function sessionUse(place: UsagePlace, reading: Reading): Promise<SessionUse> {
  const session = `${PROJECTS}/${place.projectKey}/${place.sessionId}`
  const accounts = new Accounts()
  const main = await read(`${session}.jsonl`, reading, accounts)
  const [nested, answers]: [SessionUse['nested'][number][], Answers[]] = [[], []]
  for (const name of await reading.files.list(`${session}/subagents`)) {
    const subagentId = SUBAGENT_FILE.exec(name)?.[1]
    if (subagentId === undefined || reading.left <= 0) continue
    const agent = await read(`${session}/subagents/${name}`, reading)
    nested.push({ place: { ...place, subagentId }, tally: agent.tally })
    answers.push(agent.answers)
  }
  for (const told of accounts.unsaid(place.sessionId, answers)) main.tally.add(told)
  return { place, main: main.tally, nested }
}

/** Most of a transcript is long and about something else. Of a conversation that was summed up the instant is wanted. */
const IS_TOLD = /"assistant"|"cost-state"|"compact_boundary"/

interface Transcript {
  readonly tally: UsageTally
  readonly answers: Answers
}

async function read(path: string, reading: Reading, accounts?: Accounts): Promise<Transcript> {
  reading.left -= 1
  const [tally, answers] = [reading.begin(), new Answers()]
  for await (const text of reading.files.lines(path)) {
    const line = IS_TOLD.test(text) ? objectIn(text) : undefined
    if (line === undefined) continue
    const told = toldIn(line)
    if (told !== undefined) tally.add(told)
    // What a branch was begun with, another session has used.
    if (told !== undefined && !isObject(field(line, 'forkedFrom'))) answers.add(told)
    accounts?.line(line, answers)
  }
  return { tally, answers }
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

/**
 * One session of agentA's as its transcripts have it: a file for the session, one for each nested agent.
 *
 * An answer has a line for each of its blocks, each with the figures so far; its id and its request's are what says
 * that they are one.
 */
import type { AgentFiles } from './agent.ts'
import { PROJECTS } from './agent-a-command.ts'
import { apiTokens } from './agent-a-reported-cost.ts'
import { Accounts, type Answers, sessionAnswers } from './agent-a-unreported-usage.ts'
import { field, isObject, type JsonObject, objectAt, objectIn, textAt } from './json-lines.ts'
import type { ToldUse, UsagePlace, UsageTally } from './usage-tally.ts'

export interface Reading {
  readonly files: AgentFiles
  readonly begin: () => UsageTally
  /** How many transcripts are still read. */
  left: number
}

/** The answers of one session, which may have transcripts in several projects. */
export interface SessionSaid {
  readonly begin: () => Answers
  readonly all: Answers[]
}

export const nothingSaid = (): SessionSaid => ({ begin: sessionAnswers(), all: [] })

export interface SessionUse {
  readonly place: UsagePlace
  readonly main: UsageTally
  readonly nested: readonly { readonly place: UsagePlace; readonly tally: UsageTally }[]
}

const SUBAGENT_FILE = /^agent-([A-Za-z0-9_-]{1,100})\.jsonl$/

/** `said`: in the projects that were read before; what is read now is added. */
export async function sessionUse(
  place: UsagePlace,
  reading: Reading,
  said = nothingSaid(),
): Promise<SessionUse> {
  const session = `${PROJECTS}/${place.projectKey}/${place.sessionId}`
  const [accounts, own] = [new Accounts(), said.begin()]
  const main = await read(`${session}.jsonl`, reading, own, accounts)
  const nested: SessionUse['nested'][number][] = []
  for (const name of await reading.files.list(`${session}/subagents`)) {
    const subagentId = SUBAGENT_FILE.exec(name)?.[1]
    if (subagentId === undefined || reading.left <= 0) continue
    const answers = said.begin()
    const tally = await read(`${session}/subagents/${name}`, reading, answers)
    nested.push({ place: { ...place, subagentId }, tally })
    said.all.push(answers)
  }
  for (const told of accounts.unsaid(place.sessionId, said.all)) main.add(told)
  said.all.push(own)
  return { place, main, nested }
}

/** Most of a transcript is long and about something else. Of a conversation that was summed up the instant is wanted. */
const IS_TOLD = /"assistant"|"cost-state"|"compact_boundary"/

async function read(
  path: string,
  reading: Reading,
  answers: Answers,
  accounts?: Accounts,
): Promise<UsageTally> {
  reading.left -= 1
  const tally = reading.begin()
  for await (const text of reading.files.lines(path)) {
    const line = IS_TOLD.test(text) ? objectIn(text) : undefined
    if (line === undefined) continue
    const told = toldIn(line)
    if (told !== undefined) tally.add(told)
    // What a branch was begun with, another session has used.
    if (told !== undefined && !isObject(field(line, 'forkedFrom'))) answers.add(told)
    accounts?.line(line, answers)
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

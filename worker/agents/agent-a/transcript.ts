/**
 * Reads the usage of one agentA session from its transcripts: one file for the session, one per nested agent.
 *
 * An answer has one line per content block, each with the figures so far. Lines with the same message id and request id
 * belong to the same answer.
 */
import type { AgentFiles, TranscriptFiles } from '../agent.ts'
import { field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import type { RecordedUse, UsageSource, UsageTally } from '../usage-tally.ts'
import { PROJECTS_FOLDER } from './command.ts'
import { readApiTokens } from './reported-cost.ts'
import { createAnswersFactory, SessionTotals, type TranscriptAnswers } from './unreported-usage.ts'

export interface TranscriptReading {
  readonly files: AgentFiles
  readonly createTally: () => UsageTally
  /** How many more transcripts may be read. */
  transcriptsLeft: number
}

/** The answers of one session, whose transcripts may lie in several project folders. */
export interface SessionAnswers {
  readonly createAnswers: () => TranscriptAnswers
  readonly all: TranscriptAnswers[]
}

export const emptyAnswers = (): SessionAnswers => ({ createAnswers: createAnswersFactory(), all: [] })

export interface SessionUsage {
  readonly source: UsageSource
  readonly main: UsageTally
  readonly nested: readonly { readonly source: UsageSource; readonly tally: UsageTally }[]
}

/** The folders hold notes of the agent, too, which would act on a later session. */
export const agentATranscripts: TranscriptFiles = {
  folder: PROJECTS_FOLDER,
  isTranscript: (path) => TRANSCRIPT.test(path),
}
const TRANSCRIPT = /^[\w-]{1,255}\/[\w-]{1,100}(\/subagents\/agent-[\w-]{1,100})?\.jsonl$/

const SUBAGENT_FILE = /^agent-([A-Za-z0-9_-]{1,100})\.jsonl$/

/** `answers` holds the session's answers in other project folders; this function adds those it reads. */
export async function readSession(
  source: UsageSource,
  reading: TranscriptReading,
  answers = emptyAnswers(),
): Promise<SessionUsage> {
  const session = `${PROJECTS_FOLDER}/${source.projectKey}/${source.sessionId}`
  const [totals, own] = [new SessionTotals(), answers.createAnswers()]
  const main = await readTranscript(`${session}.jsonl`, reading, own, totals)
  const nested: SessionUsage['nested'][number][] = []
  for (const name of await reading.files.list(`${session}/subagents`)) {
    const subagentId = SUBAGENT_FILE.exec(name)?.[1]
    if (subagentId === undefined || reading.transcriptsLeft <= 0) continue
    const nestedAnswers = answers.createAnswers()
    const tally = await readTranscript(`${session}/subagents/${name}`, reading, nestedAnswers)
    nested.push({ source: { ...source, subagentId }, tally })
    answers.all.push(nestedAnswers)
  }
  for (const unreported of totals.findUnreported(source.sessionId, answers.all)) main.add(unreported)
  answers.all.push(own)
  return { source, main, nested }
}

/** A fast test that skips most lines before parsing. `compact_boundary` lines are needed for their instant. */
const IS_RELEVANT = /"assistant"|"cost-state"|"compact_boundary"/

async function readTranscript(
  path: string,
  reading: TranscriptReading,
  answers: TranscriptAnswers,
  totals?: SessionTotals,
): Promise<UsageTally> {
  reading.transcriptsLeft -= 1
  const tally = reading.createTally()
  for await (const text of reading.files.lines(path)) {
    const line = IS_RELEVANT.test(text) ? parseObject(text) : undefined
    if (line === undefined) continue
    const recorded = readUse(line)
    if (recorded !== undefined) tally.add(recorded)
    // A branched session starts with copied lines; their usage belongs to the original session.
    if (recorded !== undefined && !isObject(field(line, 'forkedFrom'))) answers.add(recorded)
    totals?.observeLine(line, answers)
  }
  return tally
}

function readUse(line: JsonObject): RecordedUse | undefined {
  const message = objectAt(line, 'message')
  const model = textAt(message, 'model')
  if (textAt(line, 'type') !== 'assistant' || model === '<synthetic>') return undefined
  if (!isObject(field(message, 'usage'))) return undefined
  const ids = [textAt(message, 'id') ?? textAt(line, 'uuid'), textAt(line, 'requestId')]
  return {
    id: ids.filter((id) => id !== undefined).join(' '),
    at: textAt(line, 'timestamp'),
    model,
    use: readApiTokens(objectAt(message, 'usage')),
  }
}

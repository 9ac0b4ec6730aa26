/**
 * Reads the usage of one agentA session from its transcripts: one file for the session, one per nested agent.
 *
 * An answer has one line per content block, each with the figures so far. Lines with the same message id and request id
 * belong to the same answer.
 */

import { USAGE_ENTRIES_MAX } from '../../../protocol/limits.ts'
import type { AgentFiles, TranscriptFiles } from '../agent.ts'
import { toIsoInstant } from '../events.ts'
import { countAt, field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { type RecordedUse, toSafeId, toSafeModel, type UsageSource, type UsageTally } from '../usage-tally.ts'
import { PROJECTS_FOLDER } from './command.ts'
import { readApiTokens } from './reported-cost.ts'

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

// ---- unreported usage ----------------------------------------------------------------------------------------------

/** Totals of one session; each visit of a person adds two or three. */
const TOTALS_MAX = 100
/** A total with more models was not written by the agent's own program. */
const MODELS_MAX = 50
/** For a session with more answers than a snapshot holds, unreported usage is negligible. */
const ANSWERS_MAX = USAGE_ENTRIES_MAX

const TOKEN_KINDS = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens'] as const
type TokenKind = (typeof TOKEN_KINDS)[number]
type TokenCounts = Readonly<Record<TokenKind, number>>
/** Keyed by the plain model name. */
type CountsByModel = ReadonlyMap<string, TokenCounts>

interface ModelAnswer {
  readonly model: string
  /** Wall-clock milliseconds; NaN when unknown. */
  readonly at: number
  readonly counts: TokenCounts
}

/** Negative when there were too many answers and some are missing. */
interface AnswersBudget {
  answersLeft: number
}

/** Returns a factory for the answers of one session: one collection per transcript, with a common limit. */
export function createAnswersFactory(): () => TranscriptAnswers {
  const budget: AnswersBudget = { answersLeft: ANSWERS_MAX }
  return () => new TranscriptAnswers(budget)
}

/** The answers of one transcript by id, even when other transcripts record the same answers. */
class TranscriptAnswers {
  readonly #budget: AnswersBudget
  readonly #all = new Map<string, ModelAnswer>()

  constructor(budget: AnswersBudget) {
    this.#budget = budget
  }

  add({ id, model, at, use }: RecordedUse): void {
    const name = toSafeId(id)
    if (!this.#all.has(name)) this.#budget.answersLeft -= 1
    if (this.isComplete)
      this.#all.set(name, {
        model: toPlainModelName(toSafeModel(model)),
        at: Date.parse(at ?? ''),
        counts: use,
      })
  }

  /** Whether all answers of the whole session fit into the limit. */
  get isComplete(): boolean {
    return this.#budget.answersLeft >= 0
  }

  [Symbol.iterator](): Iterator<ModelAnswer> {
    return this.#all.values()
  }
}

interface SessionTotal {
  /** The instant of the line before the total. */
  readonly at: string
  /** The instant of the line after the total: nested agents may have answered in between. */
  until?: number
  readonly used: CountsByModel
  /** Usage of the session's own answers before the total. */
  readonly answered: CountsByModel
}

/**
 * `SessionTotals` finds agentA usage that no answer records, such as for summarizing a long conversation.
 *
 * From time to time, and at its end, the agent writes a total of the whole session into the transcript, including
 * nested agents. Usage in a total beyond the recorded answers is unreported usage. A total that misses a model of the
 * answers is ignored. Usage found through one total is not counted again through a later one.
 */
class SessionTotals {
  readonly #all: SessionTotal[] = []
  #at = ''

  /** Call this for each relevant line of the session's own transcript, after adding it to `answers`. */
  observeLine(line: JsonObject, answers: TranscriptAnswers): void {
    if (textAt(line, 'type') === 'cost-state') this.#addTotal(line, answers)
    else this.#observeInstant(textAt(line, 'timestamp') ?? '')
  }

  #observeInstant(at: string): void {
    const instant = toIsoInstant(Date.parse(at))
    if (instant === undefined) return
    this.#at = instant
    const last = this.#all.at(-1)
    if (last !== undefined) last.until ??= Date.parse(instant)
  }

  #addTotal(line: JsonObject, answers: TranscriptAnswers): void {
    if (this.#at === '' || this.#all.length >= TOTALS_MAX || !answers.isComplete) return
    const [used, answered] = [readModelUsage(objectAt(line, 'modelUsage')), sumAnswers(answers)]
    if (used.size <= MODELS_MAX && answered.size <= MODELS_MAX)
      this.#all.push({ at: this.#at, used, answered })
  }

  /**
   * Call this after all lines are read. `elsewhere` holds the answers of nested agents, and of the session itself in
   * other transcripts.
   */
  findUnreported(sessionId: string, elsewhere: readonly TranscriptAnswers[]): RecordedUse[] {
    if (elsewhere.some(({ isComplete }) => !isComplete)) return []
    const unreported: RecordedUse[] = []
    const before = new Map<string, TokenCounts>()
    const answers = elsewhere.flatMap((each) => [...each])
    for (const { total, gaps } of confirmGaps(this.#all, answers))
      for (const [model, gap] of gaps) {
        const counts = subtractCounts(gap, before.get(model))
        before.set(model, maxCounts(gap, before.get(model)))
        const id = `${sessionId} unsaid ${unreported.length}`
        if (TOKEN_KINDS.some((kind) => counts[kind] > 0))
          unreported.push({ id, at: total.at, model, use: counts, isSum: true })
      }
    return unreported
  }
}

interface ConfirmedGaps {
  readonly total: SessionTotal
  readonly gaps: CountsByModel
}

/**
 * An agent that is interrupted writes its total before its last answers. So a gap counts only as far as the next total,
 * which has both, confirms it. A total that is lower than the one before begins a new count and confirms nothing.
 */
function confirmGaps(totals: readonly SessionTotal[], elsewhere: readonly ModelAnswer[]): ConfirmedGaps[] {
  const confirmed: ConfirmedGaps[] = []
  let next: ConfirmedGaps | undefined
  for (const total of totals.toReversed()) {
    const gaps = new Map(
      [...countGaps(total, elsewhere)].map(([model, gap]) => [model, confirmGap(model, gap, total, next)]),
    )
    if (gaps.size > 0) next = { total, gaps }
    confirmed.unshift({ total, gaps })
  }
  return confirmed
}

function confirmGap(
  model: string,
  gap: TokenCounts,
  { used }: SessionTotal,
  next: ConfirmedGaps | undefined,
): TokenCounts {
  const [before, after, nextGap] = [used.get(model), next?.total.used.get(model), next?.gaps.get(model)]
  if (before === undefined || after === undefined || nextGap === undefined) return gap
  const continues = TOKEN_KINDS.every((kind) => after[kind] >= before[kind])
  return continues ? mapCounts((kind) => Math.min(gap[kind], nextGap[kind])) : gap
}

// ---- gaps ---------------------------------------------------------------------------------------------------------

/** Computes the usage of a total beyond the recorded answers, by model. */
function countGaps(
  { used, answered, until }: SessionTotal,
  nested: readonly ModelAnswer[],
): Map<string, TokenCounts> {
  // Answers without an instant count as earlier ones, and so do those of the same millisecond: counted as later ones,
  // their usage would be found a second time.
  const before = nested.filter(({ at }) => until === undefined || !(at > until))
  const answeredByThen = sumAnswers(before, answered)
  const isComparable = [...answeredByThen.keys()].every((model) => used.has(model))
  if (!isComparable) return new Map()
  return new Map([...used].map(([model, use]) => [model, subtractCounts(use, answeredByThen.get(model))]))
}

function readModelUsage(models: JsonObject): CountsByModel {
  const counts = new Map<string, TokenCounts>()
  for (const [name, use] of Object.entries(models).slice(0, MODELS_MAX + 1)) {
    const model = toPlainModelName(toSafeModel(name))
    if (isObject(use)) counts.set(model, addCounts(readCounts(use), counts.get(model)))
  }
  return counts
}

function readCounts(use: JsonObject): TokenCounts {
  return {
    inputTokens: countAt(use, 'inputTokens'),
    outputTokens: countAt(use, 'outputTokens'),
    cacheReadTokens: countAt(use, 'cacheReadInputTokens'),
    cacheWriteTokens: countAt(use, 'cacheCreationInputTokens'),
  }
}

function sumAnswers(answers: Iterable<ModelAnswer>, besides: CountsByModel = new Map()): CountsByModel {
  const counts = new Map(besides)
  for (const { model, counts: use } of answers) {
    counts.set(model, addCounts(use, counts.get(model)))
    if (counts.size > MODELS_MAX) break
  }
  return counts
}

/** Removes suffixes: answers name the exact model version, totals the requested model. */
const toPlainModelName = (model: string): string => model.replace(/\[[^\]]*\]$/, '').replace(/-\d{8}$/, '')

// ---- sums ---------------------------------------------------------------------------------------------------------

const NO_TOKENS: TokenCounts = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const addCounts = (a: TokenCounts, b: TokenCounts = NO_TOKENS): TokenCounts =>
  mapCounts((kind) => Math.min(a[kind] + b[kind], Number.MAX_SAFE_INTEGER))
const subtractCounts = (a: TokenCounts, b: TokenCounts = NO_TOKENS): TokenCounts =>
  mapCounts((kind) => Math.max(0, a[kind] - b[kind]))
const maxCounts = (a: TokenCounts, b: TokenCounts = NO_TOKENS): TokenCounts =>
  mapCounts((kind) => Math.max(a[kind], b[kind]))

function mapCounts(figure: (kind: TokenKind) => number): TokenCounts {
  return {
    inputTokens: figure('inputTokens'),
    outputTokens: figure('outputTokens'),
    cacheReadTokens: figure('cacheReadTokens'),
    cacheWriteTokens: figure('cacheWriteTokens'),
  }
}

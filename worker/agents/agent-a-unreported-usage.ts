/**
 * What agentA has used without an answer to show for it, such as for summing up a long conversation.
 *
 * Now and then, and when it leaves, it writes into a session's transcript what the whole session has used by then, its
 * nested agents included. What is in that account and in no answer was used unsaid. An account that knows less than the
 * answers, or calls a model of theirs otherwise, says nothing; what one account has brought up, a later one doesn't
 * again.
 */
import { USAGE_ENTRIES_MAX } from '../../protocol/limits.ts'
import { toIsoInstant } from './events.ts'
import { countAt, isObject, type JsonObject, objectAt, textAt } from './json-lines.ts'
import { type RecordedUse, toSafeId, toSafeModel } from './usage-tally.ts'

/** Of one session, which has two or three of each time that somebody is at it. */
const TOTALS_MAX = 100
/** One that names more is not the program's own. */
const MODELS_MAX = 50
/** A session with more answers than a snapshot holds has no use for what little is beside them. */
const ANSWERS_MAX = USAGE_ENTRIES_MAX

const TOKEN_KINDS = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens'] as const
type TokenKind = (typeof TOKEN_KINDS)[number]
type TokenCounts = Readonly<Record<TokenKind, number>>
/** By model, under its plain name. */
type CountsByModel = ReadonlyMap<string, TokenCounts>

interface ModelAnswer {
  readonly model: string
  /** NaN: nobody knows when. */
  readonly at: number
  readonly counts: TokenCounts
}

/** Below 0: there were too many, and some are missing. */
interface AnswersBudget {
  answersLeft: number
}

/** Makes those of one session, one for each transcript: an agent can make many, and have much in each of them. */
export function createAnswersFactory(): () => TranscriptAnswers {
  const budget: AnswersBudget = { answersLeft: ANSWERS_MAX }
  return () => new TranscriptAnswers(budget)
}

/** What a transcript tells of, by its id, whoever else tells of the same. */
export class TranscriptAnswers {
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

  /** Of the whole session. */
  get isComplete(): boolean {
    return this.#budget.answersLeft >= 0
  }

  [Symbol.iterator](): Iterator<ModelAnswer> {
    return this.#all.values()
  }
}

interface SessionTotal {
  /** Of the line before it. */
  readonly at: string
  /** Of the line after it: nested agents may have answered in between. */
  until?: number
  readonly used: CountsByModel
  /** By the session's own answers, up to then. */
  readonly answered: CountsByModel
}

export class SessionTotals {
  readonly #all: SessionTotal[] = []
  #at = ''

  /** Each line of the session's own transcript that tells of use, after `answers` have it. */
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

  /** When everything is read. `elsewhere`: answers of nested agents, and of the session itself in other transcripts. */
  findUnreported(sessionId: string, elsewhere: readonly TranscriptAnswers[]): RecordedUse[] {
    if (elsewhere.some(({ isComplete: areAll }) => !areAll)) return []
    const unreported: RecordedUse[] = []
    const before = new Map<string, TokenCounts>()
    const answers = elsewhere.flatMap((each) => [...each])
    for (const account of this.#all)
      for (const [model, gap] of countGaps(account, answers)) {
        const counts = subtractCounts(gap, before.get(model))
        before.set(model, maxCounts(gap, before.get(model)))
        const id = `${sessionId} unsaid ${unreported.length}`
        if (TOKEN_KINDS.some((kind) => counts[kind] > 0))
          unreported.push({ id, at: account.at, model, use: counts, isSum: true })
      }
    return unreported
  }
}

// ---- an account ---------------------------------------------------------------------------------------------------

/** What it has beyond the answers. */
function countGaps(
  { used, answered, until }: SessionTotal,
  nested: readonly ModelAnswer[],
): Map<string, TokenCounts> {
  // One whose instant nobody knows may have been before.
  const before = nested.filter(({ at }) => until === undefined || !(at >= until))
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

/** An answer names the very version, an account what was asked for. */
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

/**
 * What agentA has used without an answer to show for it, such as for summing up a long conversation.
 *
 * Now and then, and when it leaves, it writes into a session's transcript what the whole session has used by then, its
 * nested agents included. What is in that account and in no answer was used unsaid. An account that knows less than the
 * answers, or calls a model of theirs otherwise, says nothing; what one account has brought up, a later one doesn't
 * again.
 */
import { USAGE_ENTRIES_MAX } from '../../protocol/limits.ts'
import { instantAt } from './events.ts'
import { countAt, isObject, type JsonObject, objectAt, textAt } from './json-lines.ts'
import { safeId, safeModel, type ToldUse } from './usage-tally.ts'

/** Of one session, which has two or three of each time that somebody is at it. */
const ACCOUNTS_MAX = 100
/** One that names more is not the program's own. */
const MODELS_MAX = 50
/** A session with more answers than a snapshot holds has no use for what little is beside them. */
const ANSWERS_MAX = USAGE_ENTRIES_MAX

const KINDS = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens'] as const
type Kind = (typeof KINDS)[number]
type Use = Readonly<Record<Kind, number>>
/** By model, under its plain name. */
type Uses = ReadonlyMap<string, Use>

interface Answer {
  readonly model: string
  /** NaN: nobody knows when. */
  readonly at: number
  readonly use: Use
}

/** Below 0: there were too many, and some are missing. */
interface AnswersRoom {
  left: number
}

/** Makes those of one session, one for each transcript: an agent can make many, and have much in each of them. */
export function sessionAnswers(): () => Answers {
  const room: AnswersRoom = { left: ANSWERS_MAX }
  return () => new Answers(room)
}

/** What a transcript tells of, by its id, whoever else tells of the same. */
export class Answers {
  readonly #room: AnswersRoom
  readonly #all = new Map<string, Answer>()

  constructor(room: AnswersRoom) {
    this.#room = room
  }

  add({ id, model, at, use }: ToldUse): void {
    const name = safeId(id)
    if (!this.#all.has(name)) this.#room.left -= 1
    if (this.areAll)
      this.#all.set(name, { model: plainName(safeModel(model)), at: Date.parse(at ?? ''), use })
  }

  /** Of the whole session. */
  get areAll(): boolean {
    return this.#room.left >= 0
  }

  [Symbol.iterator](): Iterator<Answer> {
    return this.#all.values()
  }
}

interface Account {
  /** Of the line before it. */
  readonly at: string
  /** Of the line after it: nested agents may have answered in between. */
  until?: number
  readonly used: Uses
  /** By the session's own answers, up to then. */
  readonly said: Uses
}

export class Accounts {
  readonly #all: Account[] = []
  #at = ''

  /** Each line of the session's own transcript that tells of use, after `answers` have it. */
  line(line: JsonObject, answers: Answers): void {
    if (textAt(line, 'type') === 'cost-state') this.#account(line, answers)
    else this.#passed(textAt(line, 'timestamp') ?? '')
  }

  #passed(at: string): void {
    const instant = instantAt(Date.parse(at))
    if (instant === undefined) return
    this.#at = instant
    const last = this.#all.at(-1)
    if (last !== undefined) last.until ??= Date.parse(instant)
  }

  #account(line: JsonObject, answers: Answers): void {
    if (this.#at === '' || this.#all.length >= ACCOUNTS_MAX || !answers.areAll) return
    const [used, said] = [usesIn(objectAt(line, 'modelUsage')), usesOf(answers)]
    if (used.size <= MODELS_MAX && said.size <= MODELS_MAX) this.#all.push({ at: this.#at, used, said })
  }

  /** When everything is read. `elsewhere`: answers of nested agents, and of the session itself in other transcripts. */
  unsaid(sessionId: string, elsewhere: readonly Answers[]): ToldUse[] {
    if (elsewhere.some(({ areAll }) => !areAll)) return []
    const told: ToldUse[] = []
    const before = new Map<string, Use>()
    const answers = elsewhere.flatMap((one) => [...one])
    for (const account of this.#all)
      for (const [model, gap] of gapsOf(account, answers)) {
        const use = less(gap, before.get(model))
        before.set(model, more(gap, before.get(model)))
        const id = `${sessionId} unsaid ${told.length}`
        if (KINDS.some((kind) => use[kind] > 0)) told.push({ id, at: account.at, model, use, isSum: true })
      }
    return told
  }
}

// ---- an account ---------------------------------------------------------------------------------------------------

/** What it has beyond the answers. */
function gapsOf({ used, said, until }: Account, nested: readonly Answer[]): Map<string, Use> {
  // One whose instant nobody knows may have been before.
  const before = nested.filter(({ at }) => until === undefined || !(at >= until))
  const answered = usesOf(before, said)
  const isComparable = [...answered.keys()].every((model) => used.has(model))
  if (!isComparable) return new Map()
  return new Map([...used].map(([model, use]) => [model, less(use, answered.get(model))]))
}

function usesIn(models: JsonObject): Uses {
  const uses = new Map<string, Use>()
  for (const [name, use] of Object.entries(models).slice(0, MODELS_MAX + 1)) {
    const model = plainName(safeModel(name))
    if (isObject(use)) uses.set(model, plus(useIn(use), uses.get(model)))
  }
  return uses
}

function useIn(use: JsonObject): Use {
  return {
    inputTokens: countAt(use, 'inputTokens'),
    outputTokens: countAt(use, 'outputTokens'),
    cacheReadTokens: countAt(use, 'cacheReadInputTokens'),
    cacheWriteTokens: countAt(use, 'cacheCreationInputTokens'),
  }
}

function usesOf(answers: Iterable<Answer>, besides: Uses = new Map()): Uses {
  const uses = new Map(besides)
  for (const { model, use } of answers) {
    uses.set(model, plus(use, uses.get(model)))
    if (uses.size > MODELS_MAX) break
  }
  return uses
}

/** An answer names the very version, an account what was asked for. */
const plainName = (model: string): string => model.replace(/\[[^\]]*\]$/, '').replace(/-\d{8}$/, '')

// ---- sums ---------------------------------------------------------------------------------------------------------

const NOTHING: Use = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const plus = (a: Use, b: Use = NOTHING): Use =>
  each((kind) => Math.min(a[kind] + b[kind], Number.MAX_SAFE_INTEGER))
const less = (a: Use, b: Use = NOTHING): Use => each((kind) => Math.max(0, a[kind] - b[kind]))
const more = (a: Use, b: Use = NOTHING): Use => each((kind) => Math.max(a[kind], b[kind]))

function each(figure: (kind: Kind) => number): Use {
  return {
    inputTokens: figure('inputTokens'),
    outputTokens: figure('outputTokens'),
    cacheReadTokens: figure('cacheReadTokens'),
    cacheWriteTokens: figure('cacheWriteTokens'),
  }
}

/**
 * Computes the usage that the scripted agent reports. The numbers are invented but deterministic and consistent: four
 * characters are one token, half of each new text is written to the cache, and all earlier context is read from it.
 * Pure.
 */
import { SCRIPTED_MODEL, SMALL_SCRIPTED_MODEL } from '../../../core/run/cost.ts'

/** Usage in the format of the Messages API. */
export interface Usage {
  readonly input_tokens: number
  readonly cache_creation_input_tokens: number
  readonly cache_read_input_tokens: number
  readonly output_tokens: number
}

export interface ModelUsage {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadInputTokens: number
  readonly cacheCreationInputTokens: number
  readonly costUSD: number
}

export type UsageByModel = Readonly<Record<string, ModelUsage>>

export const NO_USAGE: Usage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
}

const CHARS_PER_TOKEN = 4
/** Tokens of an agent's own instructions. */
const INSTRUCTION_TOKENS = 1_000
/** USD per million tokens: input, output, cache read, cache write. */
const PRICES = { [SCRIPTED_MODEL]: [1, 5, 0.1, 1.25], [SMALL_SCRIPTED_MODEL]: [0.2, 1, 0.02, 0.25] } as const
const MILLION = 1_000_000

export type ScriptedModel = keyof typeof PRICES

export class UsageMeter {
  readonly #usedBefore: UsageByModel
  readonly #usedNow: Record<string, ModelUsage> = {}
  #mainLoop: Usage = NO_USAGE
  #contextTokens = INSTRUCTION_TOKENS

  /** `usedBefore` is the session's usage by earlier executions. */
  constructor(usedBefore: UsageByModel = {}) {
    this.#usedBefore = usedBefore
  }

  /** Counts the input of a message that answers the text `answered`. */
  beginMessage(answered: string): Usage {
    const fresh = estimateTokens(answered)
    const written = Math.floor(fresh / 2)
    const usage = {
      input_tokens: fresh - written,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: this.#contextTokens,
      // Streamed lines are written before the output count is known.
      output_tokens: 1,
    }
    this.#contextTokens += fresh
    return usage
  }

  /** Counts the complete message and returns its final usage. */
  endMessage(begun: Usage, words: string): Usage {
    const usage = { ...begun, output_tokens: estimateTokens(words) }
    this.#contextTokens += usage.output_tokens
    this.#mainLoop = addApiUsage(this.#mainLoop, usage)
    this.#count(SCRIPTED_MODEL, usage)
    return usage
  }

  /** Counts a subagent's message in the session's usage, not in the main loop's. */
  countSubagent(words: string): Usage {
    const tokens = estimateTokens(words)
    const usage = { ...NO_USAGE, input_tokens: tokens, output_tokens: tokens }
    this.#count(SMALL_SCRIPTED_MODEL, usage)
    return usage
  }

  /** Usage of the main loop in this execution. */
  mainLoopUsage(): Usage {
    return this.#mainLoop
  }

  /** Usage of this execution by model. */
  executionUsage(): UsageByModel {
    return { ...this.#usedNow }
  }

  /** Usage of the whole session by model. */
  sessionUsage(): UsageByModel {
    const models = [...new Set([...Object.keys(this.#usedBefore), ...Object.keys(this.#usedNow)])]
    return Object.fromEntries(
      models.map((model) => [model, addUsage(this.#usedBefore[model], this.#usedNow[model])]),
    )
  }

  sessionUsd(): number {
    return sumUsd(this.sessionUsage())
  }

  executionUsd(): number {
    return sumUsd(this.executionUsage())
  }

  #count(model: ScriptedModel, usage: Usage): void {
    this.#usedNow[model] = addUsage(this.#usedNow[model], {
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      cacheReadInputTokens: usage.cache_read_input_tokens,
      cacheCreationInputTokens: usage.cache_creation_input_tokens,
      costUSD: costOf(model, usage),
    })
  }
}

export function costOf(model: ScriptedModel, usage: Usage): number {
  const [input, output, read, written] = PRICES[model]
  const sum =
    usage.input_tokens * input +
    usage.output_tokens * output +
    usage.cache_read_input_tokens * read +
    usage.cache_creation_input_tokens * written
  return sum / MILLION
}

function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARS_PER_TOKEN))
}

function addApiUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
    cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
  }
}

const NO_MODEL_USAGE: ModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  costUSD: 0,
}

function addUsage(a: ModelUsage = NO_MODEL_USAGE, b: ModelUsage = NO_MODEL_USAGE): ModelUsage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cacheReadInputTokens: a.cacheReadInputTokens + b.cacheReadInputTokens,
    cacheCreationInputTokens: a.cacheCreationInputTokens + b.cacheCreationInputTokens,
    costUSD: a.costUSD + b.costUSD,
  }
}

function sumUsd(spent: UsageByModel): number {
  return Object.values(spent).reduce((sum, { costUSD }) => sum + costUSD, 0)
}

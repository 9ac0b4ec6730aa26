/**
 * What the scripted agent says it has spent. The numbers are made up, the same for the same texts, and add up like
 * real ones: four characters are a token, half of what is new is written to the cache, all that came before is read
 * from it. Pure.
 */

export const MODEL = 'scripted-1'
export const SMALL_MODEL = 'scripted-1-mini'

/** As a Messages API object has it. */
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

export type Spent = Readonly<Record<string, ModelUsage>>

export const NO_USAGE: Usage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
}

const CHARS_PER_TOKEN = 4
/** What an agent's own instructions would take. */
const INSTRUCTION_TOKENS = 1_000
/** USD for a million tokens: input, output, cache read, cache write. */
const PRICES = { [MODEL]: [1, 5, 0.1, 1.25], [SMALL_MODEL]: [0.2, 1, 0.02, 0.25] } as const
const MILLION = 1_000_000

export type ScriptedModel = keyof typeof PRICES

export class Meter {
  readonly #earlier: Spent
  readonly #since: Record<string, ModelUsage> = {}
  #main: Usage = NO_USAGE
  #context = INSTRUCTION_TOKENS

  /** `earlier`: what the session had spent before. */
  constructor(earlier: Spent = {}) {
    this.#earlier = earlier
  }

  /** What a message costs before its own words: `heard` is what it answers. */
  begin(heard: string): Usage {
    const fresh = tokensOf(heard)
    const written = Math.floor(fresh / 2)
    const usage = {
      input_tokens: fresh - written,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: this.#context,
      // Streamed lines come before the count is known.
      output_tokens: 1,
    }
    this.#context += fresh
    return usage
  }

  /** The message is whole: its final usage, counted. */
  end(begun: Usage, words: string): Usage {
    const usage = { ...begun, output_tokens: tokensOf(words) }
    this.#context += usage.output_tokens
    this.#main = sumOf(this.#main, usage)
    this.#count(MODEL, usage)
    return usage
  }

  /** A subagent's message: not in the main loop's usage, but in the session's. */
  subagent(words: string): Usage {
    const tokens = tokensOf(words)
    const usage = { ...NO_USAGE, input_tokens: tokens, output_tokens: tokens }
    this.#count(SMALL_MODEL, usage)
    return usage
  }

  /** The main loop's, of this execution. */
  main(): Usage {
    return this.#main
  }

  /** By model, of this execution. */
  since(): Spent {
    return { ...this.#since }
  }

  /** By model, of the whole session. */
  total(): Spent {
    const models = [...new Set([...Object.keys(this.#earlier), ...Object.keys(this.#since)])]
    return Object.fromEntries(models.map((model) => [model, plus(this.#earlier[model], this.#since[model])]))
  }

  totalUsd(): number {
    return usdOf(this.total())
  }

  sinceUsd(): number {
    return usdOf(this.since())
  }

  #count(model: ScriptedModel, usage: Usage): void {
    this.#since[model] = plus(this.#since[model], {
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

function tokensOf(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARS_PER_TOKEN))
}

function sumOf(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
    cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
  }
}

const NOTHING: ModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  costUSD: 0,
}

function plus(a: ModelUsage = NOTHING, b: ModelUsage = NOTHING): ModelUsage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cacheReadInputTokens: a.cacheReadInputTokens + b.cacheReadInputTokens,
    cacheCreationInputTokens: a.cacheCreationInputTokens + b.cacheCreationInputTokens,
    costUSD: a.costUSD + b.costUSD,
  }
}

function usdOf(spent: Spent): number {
  return Object.values(spent).reduce((sum, { costUSD }) => sum + costUSD, 0)
}

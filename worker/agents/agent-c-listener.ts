/**
 * What agentC says while it works, and what it came to.
 *
 * Its words come in pieces: what stands between two other events is one answer. It ends with one result, which counts
 * tokens by the model that served them. Thinking is in the total only, and billed like output. Where no result comes,
 * its exit code says why.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { CostModelUsage } from '../../protocol/cost.ts'
import type { AgentEnding, AgentExit, AgentListener, Heard } from './agent.ts'
import { entryOf, modelName, pricedRow } from './cost.ts'
import {
  agentEvent,
  endedSilently,
  limitEvent,
  logEvents,
  reasonFrom,
  signalOf,
  summaryFrom,
} from './events.ts'
import { countAt, isObject, type JsonObject, objectAt, objectIn, textAt } from './json-lines.ts'

const PROVIDER = 'agentC'

export function agentCListener(prices: PriceTable): AgentListener {
  const seen: Seen = { turns: 0, speaker: 'user', words: '' }
  return {
    line(text, at) {
      const message = objectIn(text)
      if (message === undefined) return logEvents('stdout', text, at)
      return [agentEvent(PROVIDER, message, at), ...noted(seen, message, prices)]
    },
    complaint(text, at) {
      const events = logEvents('stderr', text, at)
      if (events.length > 0) seen.complaint = reasonFrom(text)
      return events
    },
    ended: (exit, at) => endingOf(seen, exit, at),
  }
}

interface Seen {
  turns: number
  /** A turn is what a model says between two things that it is told; text and calls of tools come in turn. */
  speaker: 'user' | 'words' | 'tool'
  words: string
  model?: string
  result?: Result
  complaint?: string
}

interface Result {
  readonly isError: boolean
  readonly error: string
  readonly rows: readonly CostModelUsage[]
}

// ---- listening ---------------------------------------------------------------------------------------------------

function noted(seen: Seen, message: JsonObject, prices: PriceTable): Heard[] {
  switch (textAt(message, 'type')) {
    case 'init':
      seen.model = modelName(textAt(message, 'model'))
      return []
    case 'message':
      return notedWords(seen, message)
    case 'tool_use':
      return answered(seen, 'tool')
    case 'tool_result':
      seen.speaker = 'user'
      return []
    case 'result':
      return notedResult(seen, message, prices)
    default:
      return []
  }
}

/** What of an answer is kept until it is known to be the last. */
const WORDS_CHARS_MAX = 256 * 1024

function notedWords(seen: Seen, message: JsonObject): Heard[] {
  if (textAt(message, 'role') !== 'assistant') {
    seen.speaker = 'user'
    return []
  }
  const before = seen.speaker === 'words' ? seen.words : ''
  if (before.length < WORDS_CHARS_MAX) seen.words = before + (textAt(message, 'content') ?? '')
  return answered(seen, 'words')
}

function answered(seen: Seen, speaker: 'words' | 'tool'): Heard[] {
  const isNew = seen.speaker === 'user'
  seen.speaker = speaker
  if (!isNew) return []
  seen.turns += 1
  return [{ is: 'spent', turns: seen.turns }]
}

function notedResult(seen: Seen, message: JsonObject, prices: PriceTable): Heard[] {
  const rows = rowsOf(objectAt(message, 'stats'), seen.model, prices)
  const error = errorText(textAt(objectAt(message, 'error'), 'message') ?? '')
  seen.result = { isError: textAt(message, 'status') !== 'success', error, rows }
  const costUsd = entryOf(PROVIDER, rows, true).costUsd
  return [{ is: 'spent', turns: seen.turns, ...(costUsd === undefined ? {} : { costUsd }) }]
}

function rowsOf(stats: JsonObject, model: string | undefined, prices: PriceTable): CostModelUsage[] {
  const models = Object.entries(objectAt(stats, 'models'))
  const rows = models.flatMap(([name, use]) => (isObject(use) ? [rowOf(modelName(name), use, prices)] : []))
  return rows.length > 0 ? rows : [rowOf(modelName(model), stats, prices)]
}

function rowOf(model: string, use: JsonObject, prices: PriceTable): CostModelUsage {
  const prompt = countAt(use, 'input_tokens')
  const cacheReadTokens = Math.min(countAt(use, 'cached'), prompt)
  const tokens = {
    inputTokens: prompt - cacheReadTokens,
    outputTokens: Math.max(countAt(use, 'output_tokens'), countAt(use, 'total_tokens') - prompt),
    cacheReadTokens,
    cacheWriteTokens: 0,
  }
  return pricedRow(model, tokens, prices)
}

/** `[API Error: …]`, with the API's own JSON in it or plain words, and advice for people who can type. */
function errorText(message: string): string {
  const inner = /^\[API Error: ([\s\S]*?)\](?:\n|$)/.exec(message)?.[1] ?? message
  const api = objectIn(inner)
  return (api === undefined ? undefined : textAt(objectAt(api, 'error'), 'message')) ?? inner
}

// ---- the end -----------------------------------------------------------------------------------------------------

const LIMIT = /quota|rate limit|resource_exhausted|too many requests|\b429\b/i
/** A status of HTTP, cut to what fits into an exit code. */
const EXIT_TOO_MANY_REQUESTS = 429 & 0xff

const BY_EXIT_CODE: Readonly<Record<number, string>> = {
  41: 'the agent has no credential; set one with: switchyard config set agent.agentCApiKey',
  42: 'the agent does not understand how it was started',
  44: 'the agent could not use its own sandbox',
  52: 'the agent does not understand its settings',
  53: 'the agent reached its limit of turns',
  54: "one of the agent's tools failed for good",
  55: 'the agent does not trust the checkout',
}

function endingOf(seen: Seen, exit: AgentExit, at: string): AgentEnding {
  const verdict = verdictOf(seen, exit)
  const reason = verdict === 'done' ? undefined : reasonOf(seen, exit)
  const summary = summaryFrom(seen.words)
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(summary === undefined ? {} : { summary }),
    ...(seen.result === undefined ? {} : { cost: entryOf(PROVIDER, seen.result.rows, true) }),
    events: verdict === 'limit' ? [limitEvent(PROVIDER, reason ?? '', at, undefined)] : [],
  }
}

function verdictOf({ result, complaint }: Seen, exit: AgentExit): AgentEnding['verdict'] {
  if (exit.code === 0 && result?.isError === false) return 'done'
  const told = result === undefined ? (complaint ?? '') : result.error
  if (exit.code === EXIT_TOO_MANY_REQUESTS || LIMIT.test(told)) return 'limit'
  const signal = signalOf(exit)
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

function reasonOf({ result, complaint }: Seen, exit: AgentExit): string {
  if (result !== undefined && result.error.trim() !== '') return reasonFrom(result.error)
  const known = BY_EXIT_CODE[exit.code ?? 0]
  return known === undefined
    ? endedSilently(exit, { complaint, hadResult: result !== undefined })
    : reasonFrom(`${known}${complaint === undefined ? '' : `: ${complaint}`}`)
}
